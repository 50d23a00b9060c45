//! Overlap test: checks if two types can have common values.

use super::DataType;

/// Set of kinds of values, one bit per kind.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TypeSet(u16);

impl TypeSet {
    const NONE: TypeSet = TypeSet(0);
    const UNDEF: TypeSet = TypeSet(1);
    const DEFAULT: TypeSet = TypeSet(1 << 1);
    const BOOLEAN: TypeSet = TypeSet(1 << 2);
    const INTEGER: TypeSet = TypeSet(1 << 3);
    const FLOAT: TypeSet = TypeSet(1 << 4);
    const TEXT: TypeSet = TypeSet(1 << 5);
    const BINARY: TypeSet = TypeSet(1 << 6);
    const TIMESTAMP: TypeSet = TypeSet(1 << 7);
    const TIMESPAN: TypeSet = TypeSet(1 << 8);
    const REGEXP: TypeSet = TypeSet(1 << 9);
    const SEMVER: TypeSet = TypeSet(1 << 10);
    const SEMVER_RANGE: TypeSet = TypeSet(1 << 11);
    const TYPE: TypeSet = TypeSet(1 << 12);
    const ARRAY: TypeSet = TypeSet(1 << 13);
    const HASH: TypeSet = TypeSet(1 << 14);
    const ALL: TypeSet = TypeSet((1 << 15) - 1);
    const NUMBER: TypeSet = TypeSet::INTEGER.and(TypeSet::FLOAT);
    const PLAIN: TypeSet = TypeSet::NUMBER.and(TypeSet::TEXT).and(TypeSet::BOOLEAN);
    const TIME: TypeSet = TypeSet::TIMESTAMP.and(TypeSet::TIMESPAN);
    const VERSION: TypeSet = TypeSet::SEMVER.and(TypeSet::SEMVER_RANGE);
    const COMPOSED: TypeSet = TypeSet::ARRAY.and(TypeSet::HASH);

    const fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    const fn without(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & !other.0)
    }

    fn meets(self, other: TypeSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// Maximum number of alias lookups, because recursive types with several branches would take too long.
const NAMES: u32 = 1000;

impl DataType {
    /// Returns true if a value of `other` may be a value of this type, ignoring sensitivity. Compares only the
    /// kinds of values. False is certain, but true is not.
    pub fn overlaps(&self, other: &DataType) -> bool {
        kinds(self, &mut NAMES.clone()).meets(kinds(other, &mut NAMES.clone()))
    }
}

/// Returns a superset of the kinds of values that a type accepts.
fn kinds(data_type: &DataType, names: &mut u32) -> TypeSet {
    match data_type {
        DataType::Undef => TypeSet::UNDEF,
        DataType::Default => TypeSet::DEFAULT,
        DataType::Boolean(_) => TypeSet::BOOLEAN,
        DataType::Integer(..) => TypeSet::INTEGER,
        DataType::Float(..) => TypeSet::FLOAT,
        DataType::Numeric => TypeSet::NUMBER,
        DataType::String(..)
        | DataType::Literal(_)
        | DataType::Enum(_)
        | DataType::EnumAnyCase(_)
        | DataType::Pattern(_) => TypeSet::TEXT,
        DataType::Regexp(_) => TypeSet::REGEXP,
        DataType::Binary => TypeSet::BINARY,
        DataType::Timestamp(..) => TypeSet::TIMESTAMP,
        DataType::Timespan(..) => TypeSet::TIMESPAN,
        DataType::SemVer(_) => TypeSet::SEMVER,
        DataType::SemVerRange => TypeSet::SEMVER_RANGE,
        DataType::Type(_) => TypeSet::TYPE,
        DataType::Array(..) | DataType::Tuple(..) => TypeSet::ARRAY,
        DataType::Hash(..) | DataType::Struct(_) => TypeSet::HASH,
        DataType::Collection(..) => TypeSet::COMPOSED,
        DataType::Iterable(_) => TypeSet::COMPOSED.and(TypeSet::TEXT).and(TypeSet::INTEGER).and(TypeSet::TYPE),
        DataType::Scalar => TypeSet::PLAIN.and(TypeSet::REGEXP).and(TypeSet::TIME).and(TypeSet::VERSION),
        DataType::ScalarData => TypeSet::PLAIN,
        DataType::Data => TypeSet::PLAIN.and(TypeSet::COMPOSED).and(TypeSet::UNDEF),
        DataType::Variant(types) => types.iter().fold(TypeSet::NONE, |all, one| all.and(kinds(one, names))),
        DataType::Optional(inner) => kinds(inner, names).and(TypeSet::UNDEF),
        DataType::NotUndef(inner) => kinds(inner, names).without(TypeSet::UNDEF),
        DataType::Sensitive(inner) => kinds(inner, names),
        // A text or a number may be converted to a value.
        DataType::Init(inner) => kinds(inner, names).and(TypeSet::TEXT).and(TypeSet::INTEGER),
        DataType::Alias(alias) => match names.checked_sub(1) {
            Some(left) => {
                *names = left;
                kinds(&alias.definition(), names)
            }
            None => TypeSet::ALL,
        },
        // The values of unresolved and foreign types are unknown, so any kind is possible.
        DataType::Any | DataType::Unit | DataType::RichData | DataType::Foreign(_) | DataType::TypeReference(_) => {
            TypeSet::ALL
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
    fn disjoint_types_do_not_overlap() {
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
            assert!(!one.overlaps(&other) && !other.overlaps(&one), "{one}, {other}");
        }
    }

    #[test]
    fn undecidable_types_count_as_overlapping() {
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
            assert!(one.overlaps(&other) && other.overlaps(&one), "{one}, {other}");
        }
    }

    #[test]
    fn aliases_are_resolved_with_depth_limit() {
        let alias = |number: u32, text: String| (format!("T{number}").into(), parsed(&text));
        let many = (0..40).map(|number| alias(number, format!("Variant[T{0}, Optional[T{0}]]", number + 1)));
        let aliases = Aliases::new(many.chain([alias(40, "Integer".into())])).unwrap();
        assert!(!aliases.get("T40").unwrap().overlaps(&DataType::text()));
        assert!(aliases.get("T0").unwrap().overlaps(&DataType::text()));
    }
}
