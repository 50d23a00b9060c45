//! The known metaparameters.

/// Known metaparameters, with their data types and descriptions.
pub(crate) const META: [(&str, &str, &str); 20] = [
    ("noop", "Boolean", "Check the resource and never change it."),
    (
        "policy",
        "Enum[repair, warn, observe]",
        "Action if the resource is out of sync: change it, log a warning, or only report it.",
    ),
    (
        "contested",
        "Enum[repair, observe]",
        "Action of `kilter run` if another program keeps undoing repairs: repair at growing intervals, or only \
         observe.",
    ),
    ("retry", "Integer[-1, 2147483647]", "Number of retries after a failure; -1: no limit."),
    ("retryreset", "Boolean", "Restore all retries when the resource is in sync."),
    ("delay", "Integer[0]", "Time between two attempts, in milliseconds."),
    ("timeout", "Integer[0]", "Maximum time of a check, a change or a refresh, in milliseconds; 0: no limit."),
    (
        "poll",
        "Integer[-2147483648, 2147483647]",
        "Interval of the checks of `kilter run`, in seconds, instead of watching; 0: watch; negative: one check at \
         the start.",
    ),
    ("limit", "Variant[Integer[0], Float[0]]", "Maximum number of events per second in `kilter run`; 0: no limit."),
    ("burst", "Integer[1, 4294967295]", "Number of events that kilter handles at once; requires `limit`."),
    (
        "sema",
        "Array[String]",
        "Semaphores that the resource holds during its calls: names, each with an optional count, `downloads:4`.",
    ),
    ("autoedge", "Boolean", "Create automatic edges to and from the resource."),
    ("autogroup", "Boolean", "Change the resource in one call with others, if its provider accepts several."),
    ("dollar", "Boolean", "Ignored: names may begin with `$` anyway."),
    ("hidden", "Boolean", "Neither check nor change the resource; its relations still order others."),
    ("reverse", "Boolean", "Restore the earlier state when the resource is no longer declared."),
    ("realize", "Boolean", "Delay an edited manifest until the resource has been in sync once or has failed."),
    ("reset", "Boolean", "Restore all retries when the declaration changes during `kilter run`."),
    ("rewatch", "Boolean", "Ignored: kilter always restarts a failed watch."),
    ("export", "Array[String]", "Machines that may collect the resource: names, or `*` for all."),
];

/// Returns the names of the known metaparameters.
pub(crate) fn names() -> [&'static str; META.len()] {
    META.map(|(name, ..)| name)
}
