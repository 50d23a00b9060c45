//! Normalisation and generalisation of types.

use ecow::EcoString;

use super::DataType;
use super::assign::Seals;

impl DataType {
    /// Returns the variant of `types`, flattened and without duplicates.
    pub(crate) fn either(types: Vec<DataType>) -> DataType {
        let mut flat: Vec<DataType> = Vec::with_capacity(types.len());
        for data_type in types {
            match data_type {
                DataType::Variant(inner) => inner.into_iter().for_each(|part| push_new(&mut flat, part)),
                other => push_new(&mut flat, other),
            }
        }
        match flat.len() {
            1 => flat.remove(0),
            _ => DataType::Variant(flat),
        }
    }

    /// Returns the type in its shortest form, as messages show it: sorted words, merged enums, patterns and
    /// ranges.
    #[must_use]
    pub(super) fn normalized(&self) -> DataType {
        match self {
            DataType::Enum(words) => DataType::Enum(sorted(words.clone())),
            DataType::EnumAnyCase(words) => DataType::EnumAnyCase(sorted(words.clone())),
            DataType::Variant(types) if !types.is_empty() => variant(types),
            DataType::Optional(inner) => match inner.normalized() {
                DataType::NotUndef(inner) => DataType::Optional(inner).normalized(),
                DataType::Any => DataType::Optional(Box::new(DataType::Any)),
                inner if inner.takes(&DataType::Undef, Seals::Exact) => inner,
                inner => DataType::Optional(Box::new(inner)),
            },
            DataType::NotUndef(inner) => match inner.normalized() {
                DataType::Optional(inner) => DataType::NotUndef(inner).normalized(),
                inner if !inner.takes(&DataType::Undef, Seals::Exact) => inner,
                inner => DataType::NotUndef(Box::new(inner)),
            },
            other => other.with_parts(&mut DataType::normalized),
        }
    }

    /// Returns the type without bounds: `Integer` for `Integer[1, 1]`, `String` for a literal.
    pub(crate) fn generalized(&self) -> DataType {
        match self {
            DataType::Boolean(_) => DataType::Boolean(None),
            DataType::Integer(..) => DataType::Integer(None, None),
            DataType::Float(..) => DataType::Float(None, None),
            DataType::String(..) | DataType::Literal(_) => DataType::text(),
            DataType::Timestamp(..) => DataType::Timestamp(None, None),
            DataType::Timespan(..) => DataType::Timespan(None, None),
            DataType::Collection(..) => DataType::Collection(None, None),
            DataType::Enum(words) | DataType::EnumAnyCase(words) => {
                let lengths = || words.iter().map(|word| word.chars().count() as u64);
                DataType::String(lengths().min(), lengths().max())
            }
            DataType::Array(of, ..) => DataType::Array(Box::new(of.generalized()), None, None),
            DataType::Hash(keys, of, ..) => {
                DataType::Hash(Box::new(keys.generalized()), Box::new(of.generalized()), None, None)
            }
            DataType::Variant(types) => DataType::either(types.iter().map(DataType::generalized).collect()),
            other => other.with_parts(&mut DataType::generalized),
        }
    }
}

fn push_new(types: &mut Vec<DataType>, data_type: DataType) {
    if !types.contains(&data_type) {
        types.push(data_type);
    }
}

fn sorted(mut words: Vec<EcoString>) -> Vec<EcoString> {
    words.sort_unstable();
    words.dedup();
    words
}

fn variant(written: &[DataType]) -> DataType {
    let mut types: Vec<DataType> = written.iter().map(DataType::normalized).collect();
    if types.len() == 1 {
        return types.remove(0);
    }
    if types.iter().any(|part| matches!(part, DataType::Undef | DataType::Optional(_))) {
        let rest = types.into_iter().filter(|part| *part != DataType::Undef).map(|part| match part {
            DataType::Optional(inner) => *inner,
            other => other,
        });
        return DataType::Optional(Box::new(DataType::either(rest.collect()))).normalized();
    }
    let types = match DataType::either(types) {
        DataType::Variant(types) => types,
        single => return single,
    };
    let before = types.clone();
    let types = merged_not_undef(types);
    let types = merged_words(types);
    let types = merged_patterns(types);
    let types = merged_ranges(types);
    // If nothing was merged, the order stays the same, except that words are sorted.
    let is_words = |part: &DataType| matches!(part, DataType::Enum(_) | DataType::EnumAnyCase(_));
    let same = |(part, written): (&DataType, &DataType)| part == written || is_words(written);
    let unchanged = before.len() == written.len() && before.iter().zip(written).all(same);
    DataType::either(if unchanged && types.len() == before.len() { before } else { types })
}

/// Splits types by `belongs`. Returns all types as an error if fewer than two belong.
fn parted(
    types: Vec<DataType>,
    belongs: impl Fn(&DataType) -> bool,
) -> Result<(Vec<DataType>, Vec<DataType>), Vec<DataType>> {
    match types.iter().filter(|part| belongs(part)).count() {
        0 | 1 => Err(types),
        _ => Ok(types.into_iter().partition(belongs)),
    }
}

fn merged_not_undef(types: Vec<DataType>) -> Vec<DataType> {
    match parted(types, |part| matches!(part, DataType::NotUndef(_))) {
        Err(types) => types,
        Ok((some, mut others)) => {
            let inner = some.into_iter().map(|part| match part {
                DataType::NotUndef(inner) => *inner,
                other => other,
            });
            others.push(DataType::NotUndef(Box::new(DataType::either(inner.collect()).normalized())));
            others
        }
    }
}

fn merged_words(types: Vec<DataType>) -> Vec<DataType> {
    let exact = |part: &DataType| match part {
        DataType::Enum(words) => !words.is_empty(),
        other => matches!(other, DataType::Literal(_)),
    };
    let types = match parted(types, exact) {
        Err(types) => types,
        Ok((words, mut others)) => {
            let words = words.iter().flat_map(DataType::allowed).map(EcoString::from).collect();
            others.push(DataType::Enum(sorted(words)));
            others
        }
    };
    match parted(types, |part| matches!(part, DataType::EnumAnyCase(_))) {
        Err(types) => types,
        Ok((words, mut others)) => {
            let words = words.iter().flat_map(DataType::allowed).map(|word| EcoString::from(word).to_lowercase());
            others.push(DataType::EnumAnyCase(sorted(words.collect())));
            others
        }
    }
}

fn merged_patterns(types: Vec<DataType>) -> Vec<DataType> {
    match parted(types, |part| matches!(part, DataType::Pattern(_))) {
        Err(types) => types,
        Ok((patterns, mut others)) => {
            let mut all = Vec::new();
            for part in patterns {
                let DataType::Pattern(patterns) = part else { continue };
                for pattern in patterns {
                    if !all.contains(&pattern) {
                        all.push(pattern);
                    }
                }
            }
            others.push(DataType::Pattern(all));
            others
        }
    }
}

/// Merges ranges that touch. Merged ranges come first, the last one in front.
fn merged_ranges(types: Vec<DataType>) -> Vec<DataType> {
    let kinds: [fn(&DataType) -> bool; 4] = [
        |part| matches!(part, DataType::Integer(..)),
        |part| matches!(part, DataType::Float(..)),
        |part| matches!(part, DataType::Timespan(..)),
        |part| matches!(part, DataType::Timestamp(..)),
    ];
    kinds.iter().fold(types, |types, kind| match parted(types, kind) {
        Err(types) => types,
        Ok((mut ranges, others)) => {
            let mut merged = Vec::new();
            while let Some(mut range) = ranges.pop() {
                let mut apart = Vec::new();
                for other in ranges {
                    match joined(&range, &other) {
                        Some(whole) => range = whole,
                        None => apart.push(other),
                    }
                }
                merged.push(range);
                ranges = apart;
            }
            merged.extend(others);
            merged
        }
    })
}

fn joined(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::Integer(a, b), DataType::Integer(c, d)) => {
            let next = |end: &Option<i64>, start: &Option<i64>| {
                end.zip(*start).is_some_and(|(end, start)| end.checked_add(1) == Some(start))
            };
            let near = touch(a, b, c, d) || next(b, c) || next(d, a);
            near.then(|| DataType::Integer(least(a, c), most(b, d)))
        }
        (DataType::Float(a, b), DataType::Float(c, d)) => {
            touch(a, b, c, d).then(|| DataType::Float(least(a, c), most(b, d)))
        }
        (DataType::Timespan(a, b), DataType::Timespan(c, d)) => {
            touch(a, b, c, d).then(|| DataType::Timespan(least(a, c), most(b, d)))
        }
        (DataType::Timestamp(a, b), DataType::Timestamp(c, d)) => {
            touch(a, b, c, d).then(|| DataType::Timestamp(least(a, c), most(b, d)))
        }
        _ => None,
    }
}

fn touch<T: PartialOrd>(a: &Option<T>, b: &Option<T>, c: &Option<T>, d: &Option<T>) -> bool {
    let before = |end: &Option<T>, start: &Option<T>| matches!((end, start), (Some(end), Some(start)) if end < start);
    !before(b, c) && !before(d, a)
}

fn least<T: PartialOrd + Copy>(a: &Option<T>, b: &Option<T>) -> Option<T> {
    a.zip(*b).map(|(a, b)| if a <= b { a } else { b })
}

fn most<T: PartialOrd + Copy>(a: &Option<T>, b: &Option<T>) -> Option<T> {
    a.zip(*b).map(|(a, b)| if a >= b { a } else { b })
}
