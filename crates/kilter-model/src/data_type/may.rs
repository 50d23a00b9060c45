//! Overlap test: checks if two types can have common values.

use super::DataType;

/// Set of kinds of values, one bit per kind.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kinds(u16);

impl Kinds {
    const NONE: Kinds = Kinds(0);
    const UNDEF: Kinds = Kinds(1);
    const DEFAULT: Kinds = Kinds(1 << 1);
    const BOOLEAN: Kinds = Kinds(1 << 2);
    const INTEGER: Kinds = Kinds(1 << 3);
    const FLOAT: Kinds = Kinds(1 << 4);
    const TEXT: Kinds = Kinds(1 << 5);
    const BINARY: Kinds = Kinds(1 << 6);
    const TIMESTAMP: Kinds = Kinds(1 << 7);
    const TIMESPAN: Kinds = Kinds(1 << 8);
    const REGEXP: Kinds = Kinds(1 << 9);
    const SEMVER: Kinds = Kinds(1 << 10);
    const SEMVER_RANGE: Kinds = Kinds(1 << 11);
    const TYPE: Kinds = Kinds(1 << 12);
    const ARRAY: Kinds = Kinds(1 << 13);
    const HASH: Kinds = Kinds(1 << 14);
    const ALL: Kinds = Kinds((1 << 15) - 1);
    const NUMBER: Kinds = Kinds::INTEGER.and(Kinds::FLOAT);
    const PLAIN: Kinds = Kinds::NUMBER.and(Kinds::TEXT).and(Kinds::BOOLEAN);
    const TIME: Kinds = Kinds::TIMESTAMP.and(Kinds::TIMESPAN);
    const VERSION: Kinds = Kinds::SEMVER.and(Kinds::SEMVER_RANGE);
    const COMPOSED: Kinds = Kinds::ARRAY.and(Kinds::HASH);

    const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    const fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// Maximum number of alias lookups, because recursive types with several branches would take too long.
const NAMES: u32 = 1000;

impl DataType {
    /// Returns true if a value of `other` may be a value of this type, ignoring sensitivity. Compares only the
    /// kinds of values. False is certain, but true is not.
    pub fn may_accept(&self, other: &DataType) -> bool {
        kinds(self, &mut NAMES.clone()).meets(kinds(other, &mut NAMES.clone()))
    }
}

/// Returns a superset of the kinds of values that a type accepts.
fn kinds(data_type: &DataType, names: &mut u32) -> Kinds {
    match data_type {
        DataType::Undef => Kinds::UNDEF,
        DataType::Default => Kinds::DEFAULT,
        DataType::Boolean(_) => Kinds::BOOLEAN,
        DataType::Integer(..) => Kinds::INTEGER,
        DataType::Float(..) => Kinds::FLOAT,
        DataType::Numeric => Kinds::NUMBER,
        DataType::String(..)
        | DataType::Literal(_)
        | DataType::Enum(_)
        | DataType::EnumAnyCase(_)
        | DataType::Pattern(_) => Kinds::TEXT,
        DataType::Regexp(_) => Kinds::REGEXP,
        DataType::Binary => Kinds::BINARY,
        DataType::Timestamp(..) => Kinds::TIMESTAMP,
        DataType::Timespan(..) => Kinds::TIMESPAN,
        DataType::SemVer(_) => Kinds::SEMVER,
        DataType::SemVerRange => Kinds::SEMVER_RANGE,
        DataType::Type(_) => Kinds::TYPE,
        DataType::Array(..) | DataType::Tuple(..) => Kinds::ARRAY,
        DataType::Hash(..) | DataType::Struct(_) => Kinds::HASH,
        DataType::Collection(..) => Kinds::COMPOSED,
        DataType::Iterable(_) => Kinds::COMPOSED.and(Kinds::TEXT).and(Kinds::INTEGER).and(Kinds::TYPE),
        DataType::Scalar => Kinds::PLAIN.and(Kinds::REGEXP).and(Kinds::TIME).and(Kinds::VERSION),
        DataType::ScalarData => Kinds::PLAIN,
        DataType::Data => Kinds::PLAIN.and(Kinds::COMPOSED).and(Kinds::UNDEF),
        DataType::Variant(types) => types.iter().fold(Kinds::NONE, |all, one| all.and(kinds(one, names))),
        DataType::Optional(inner) => kinds(inner, names).and(Kinds::UNDEF),
        DataType::NotUndef(inner) => kinds(inner, names).without(Kinds::UNDEF),
        DataType::Sensitive(inner) => kinds(inner, names),
        // A text or a number may be converted to a value.
        DataType::Init(inner) => kinds(inner, names).and(Kinds::TEXT).and(Kinds::INTEGER),
        DataType::Alias(alias) => match names.checked_sub(1) {
            Some(left) => {
                *names = left;
                kinds(&alias.definition(), names)
            }
            None => Kinds::ALL,
        },
        // The values of unresolved and foreign types are unknown, so any kind is possible.
        DataType::Any | DataType::Unit | DataType::RichData | DataType::Foreign(_) | DataType::TypeReference(_) => {
            Kinds::ALL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aliases;
    use super::*;

    fn parsed(data_type: &str) -> DataType {
        data_type.parse().unwrap()
    }

    #[test]
    fn types_that_have_no_kind_of_value_in_common_never_accept_each_other() {
        for (one, other) in [
            ("Integer", "String"),
            ("Integer[0]", "Variant[String, Binary]"),
            ("Boolean", "Integer"),
            ("Optional[Integer]", "Sensitive[String]"),
            ("Enum[a, b]", "Array[String]"),
            ("Hash[String, String]", "Array[String]"),
            ("Float", "Integer"),
            ("NotUndef[Optional[String]]", "Undef"),
            ("ScalarData", "Struct[{a => String}]"),
            ("Timestamp", "String"),
        ] {
            let (one, other) = (parsed(one), parsed(other));
            assert!(!one.may_accept(&other) && !other.may_accept(&one), "{one}, {other}");
        }
    }

    #[test]
    fn in_doubt_a_type_may_accept_another() {
        for (one, other) in [
            ("Integer[0, 9]", "Integer[10, 20]"),
            ("Variant[Boolean, Enum[all]]", "String"),
            ("Optional[Integer]", "Optional[String]"),
            ("Array[Integer]", "Array[String]"),
            ("Any", "Foo::Bar"),
            ("Callable", "String"),
            ("Init[Integer]", "String"),
            ("Data", "Sensitive[Hash]"),
            ("Iterable[Integer]", "Integer"),
        ] {
            let (one, other) = (parsed(one), parsed(other));
            assert!(one.may_accept(&other) && other.may_accept(&one), "{one}, {other}");
        }
    }

    #[test]
    fn names_are_looked_up_and_those_without_an_end_are_given_up() {
        let alias = |number: u32, text: String| (format!("T{number}").into(), parsed(&text));
        let many = (0..40).map(|number| alias(number, format!("Variant[T{0}, Optional[T{0}]]", number + 1)));
        let aliases = Aliases::new(many.chain([alias(40, "Integer".into())])).unwrap();
        assert!(!aliases.get("T40").unwrap().may_accept(&DataType::text()));
        assert!(aliases.get("T0").unwrap().may_accept(&DataType::text()));
    }
}
