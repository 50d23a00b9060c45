//! Describes type mismatches: compares the type of a value with the expected type, as Puppet does.
//!
//! Runs only for values that are known not to match, so it is not optimised.

use ecow::EcoString;
use rustc_hash::FxHashSet;

use super::assign::{Seals, struct_size, tuple_size, within_size};
use super::infer::exact;
use super::mismatch::{Mismatch, MismatchFault, Problem, Step};
use super::{DataType, Field};
use crate::value::Value;

/// Maximum number of reported faults.
const MAX_REPORTED_FAULTS: usize = 100;

/// Describes why `value` is not of type `expected`.
pub(super) fn describe(expected: &DataType, value: &Value, seals: Seals) -> Mismatch {
    let discreet = seals == Seals::Ignored && (expected.may_hold_secrets() || value.holds_sensitive());
    let actual = exact(value);
    let describer = Describer { seals, discreet };
    let mut faults = describer.describe(expected, &actual, &[]);
    if faults.is_empty() {
        // The check and the comparison agree, except for types that are never inferred.
        faults = vec![describer.other_type(&[], expected, &actual)];
    }
    faults.truncate(MAX_REPORTED_FAULTS);
    Mismatch::new(faults)
}

/// Returns true if a type, or an alias that it uses, contains `Sensitive`.
pub(super) fn mentions_seals(data_type: &DataType, seen: &mut FxHashSet<EcoString>) -> bool {
    match data_type {
        DataType::Sensitive(_) => true,
        DataType::Alias(alias) => seen.insert(alias.name.clone()) && mentions_seals(&alias.definition(), seen),
        DataType::Array(of, ..)
        | DataType::Iterable(of)
        | DataType::Optional(of)
        | DataType::NotUndef(of)
        | DataType::Type(of)
        | DataType::Init(of) => mentions_seals(of, seen),
        DataType::Hash(keys, of, ..) => mentions_seals(keys, seen) || mentions_seals(of, seen),
        DataType::Struct(fields) => fields.iter().any(|field| mentions_seals(&field.data_type, seen)),
        DataType::Tuple(types, ..) | DataType::Variant(types) => types.iter().any(|one| mentions_seals(one, seen)),
        _ => false,
    }
}

struct Describer {
    seals: Seals,
    /// True if messages show only the kinds of values, because a value may be a secret.
    discreet: bool,
}

type Faults = Vec<MismatchFault>;

fn at(path: &[Step], step: Step) -> Vec<Step> {
    let mut path = path.to_vec();
    path.push(step);
    path
}

fn fault(path: &[Step], problem: Problem) -> MismatchFault {
    MismatchFault { path: path.to_vec(), problem }
}

impl Describer {
    fn shown_type(&self, actual: &DataType) -> DataType {
        let actual = actual.discreet();
        if self.discreet { actual.generalized() } else { actual }
    }

    fn other_type(&self, path: &[Step], expected: &DataType, actual: &DataType) -> MismatchFault {
        let (expected, actual) = (expected.normalized(), self.shown_type(actual).normalized());
        fault(path, Problem::Type { expected, actual })
    }

    fn takes(&self, expected: &DataType, actual: &DataType) -> bool {
        expected.takes(actual, self.seals)
    }

    fn describe(&self, expected: &DataType, actual: &DataType, path: &[Step]) -> Faults {
        if let Some(name) = expected.unresolved() {
            return vec![fault(path, Problem::Unresolved(name))];
        }
        if self.takes(expected, actual) {
            return Vec::new();
        }
        self.compare(&expected.normalized(), expected, actual, path)
    }

    /// Compares with `expected`, which is `original` or a part of it.
    fn compare(&self, expected: &DataType, original: &DataType, actual: &DataType, path: &[Step]) -> Faults {
        let is_alias = original.name_of_alias().is_some();
        if let (Seals::Ignored, DataType::Sensitive(_)) = (self.seals, actual)
            && !matches!(expected, DataType::Variant(_) | DataType::Optional(_))
            && expected.name_of_alias().is_none()
        {
            // The content of a secret is not inspected.
            return vec![self.other_type(path, original, actual)];
        }
        match expected {
            DataType::Variant(types) => self.variant(types, original, actual, path),
            DataType::Struct(fields) => self.structure(fields, original, actual, path),
            DataType::Hash(keys, of, from, to) => self.hash((keys, of), (from, to), original, actual, path),
            DataType::Tuple(types, from, to) => self.tuple(types, (from, to), original, actual, path),
            DataType::Array(of, from, to) => self.array(of, (from, to), original, actual, path),
            DataType::Collection(from, to) => self.collection((from, to), original, actual, path),
            DataType::Optional(inner) => {
                let original = if is_alias { original } else { expected };
                self.compare(inner, original, actual, path)
            }
            DataType::Enum(_) | DataType::EnumAnyCase(_) | DataType::Pattern(_) => {
                vec![self.no_match(expected, original, actual, path)]
            }
            folded if folded.name_of_alias().is_some() => {
                let definition = folded.unfolded().map(|definition| definition.normalized());
                definition.map_or_else(Vec::new, |definition| self.compare(&definition, folded, actual, path))
            }
            _ => vec![self.other_type(path, original, actual)],
        }
    }

    fn no_match(&self, expected: &DataType, original: &DataType, actual: &DataType, path: &[Step]) -> MismatchFault {
        if let (DataType::Pattern(patterns), DataType::Literal(text)) = (expected, actual) {
            let failed = patterns.iter().find_map(|pattern| Some((pattern, pattern.is_match(text).err()?)));
            if let Some((pattern, error)) = failed {
                let (pattern, reason) = (pattern.source().clone(), error.reason().into());
                return fault(path, Problem::Unmatchable { pattern, reason });
            }
        }
        let (expected, actual) = (original.normalized(), self.shown_type(actual).normalized());
        fault(path, Problem::Pattern { expected, actual })
    }

    fn variant(&self, types: &[DataType], original: &DataType, actual: &DataType, path: &[Step]) -> Faults {
        let undef = matches!(original, DataType::Optional(_)).then_some(&DataType::Undef);
        let mut all: Vec<Faults> = Vec::new();
        for (index, part) in undef.into_iter().chain(types).enumerate() {
            let faults = self.describe(part, actual, &at(path, Step::Variant(index)));
            if faults.is_empty() {
                return Vec::new();
            }
            all.push(faults);
        }
        let faults = merged(all, path.len());
        if original.name_of_alias().is_some() && faults.len() == 1 {
            return vec![self.other_type(path, original, actual)];
        }
        faults
    }

    fn array(
        &self,
        of: &DataType,
        size: (&Option<u64>, &Option<u64>),
        original: &DataType,
        actual: &DataType,
        path: &[Step],
    ) -> Faults {
        match actual {
            DataType::Tuple(types, ..) => {
                if let Some(fault) = wrong_size(size, types.len() as u64, path) {
                    return vec![fault];
                }
                self.elements(types, path, &|_| Some(of))
            }
            DataType::Array(part, from, to) => self.whole(size, (from, to), path, || {
                self.other_type(path, original, &DataType::Array(part.clone(), None, None))
            }),
            _ => vec![self.other_type(path, original, actual)],
        }
    }

    /// Returns the faults of the elements, each compared with its expected type.
    fn elements<'t>(
        &self,
        types: &[DataType],
        path: &[Step],
        expected: &dyn Fn(usize) -> Option<&'t DataType>,
    ) -> Faults {
        let mut faults = Vec::new();
        for (index, part) in types.iter().enumerate() {
            if let Some(expected) = expected(index)
                && !self.takes(expected, part)
            {
                faults.extend(self.describe(expected, part, &at(path, Step::Index(index))));
                if faults.len() > MAX_REPORTED_FAULTS {
                    break;
                }
            }
        }
        faults
    }

    /// Returns the fault of a collection: a wrong size, or the result of `otherwise`.
    fn whole(
        &self,
        (from, to): (&Option<u64>, &Option<u64>),
        (a, b): (&Option<u64>, &Option<u64>),
        path: &[Step],
        otherwise: impl Fn() -> MismatchFault,
    ) -> Faults {
        let actual = (a.unwrap_or(0), *b);
        match within_size(from, to, actual.0, actual.1) {
            true => vec![otherwise()],
            false => vec![fault(path, Problem::Size { expected: (from.unwrap_or(0), *to), actual })],
        }
    }

    fn tuple(
        &self,
        own: &[DataType],
        (from, to): (&Option<u64>, &Option<u64>),
        original: &DataType,
        actual: &DataType,
        path: &[Step],
    ) -> Faults {
        let (least, most) = tuple_size(own, from, to);
        match actual {
            DataType::Tuple(types, ..) => match wrong_size((&Some(least), &most), types.len() as u64, path) {
                Some(fault) => vec![fault],
                None => self.elements(types, path, &|index| own.get(index).or(own.last())),
            },
            DataType::Array(_, a, b) => {
                self.whole((&Some(least), &most), (a, b), path, || self.other_type(path, original, actual))
            }
            _ => vec![self.other_type(path, original, actual)],
        }
    }

    fn collection(
        &self,
        size: (&Option<u64>, &Option<u64>),
        original: &DataType,
        actual: &DataType,
        path: &[Step],
    ) -> Faults {
        let count = match actual {
            DataType::Tuple(types, ..) => Some(types.len() as u64),
            DataType::Struct(fields) => Some(fields.len() as u64),
            DataType::Array(_, _, to) | DataType::Hash(_, _, _, to) => *to,
            _ => None,
        };
        let fault = count.and_then(|count| wrong_size(size, count, path));
        vec![fault.unwrap_or_else(|| self.other_type(path, original, actual))]
    }

    fn hash(
        &self,
        (keys, of): (&DataType, &DataType),
        size: (&Option<u64>, &Option<u64>),
        original: &DataType,
        actual: &DataType,
        path: &[Step],
    ) -> Faults {
        match actual {
            DataType::Struct(fields) => {
                if let Some(fault) = wrong_size(size, fields.len() as u64, path) {
                    return vec![fault];
                }
                let mut faults = Vec::new();
                for Field { name, data_type, .. } in fields.iter() {
                    let key = DataType::Literal(name.clone());
                    faults.extend(self.describe(keys, &key, &at(path, Step::Key(name.clone()))));
                    faults.extend(self.describe(of, data_type, &at(path, Step::Entry(name.clone()))));
                    if faults.len() > MAX_REPORTED_FAULTS {
                        break;
                    }
                }
                faults
            }
            DataType::Hash(k, v, from, to) => self.whole(size, (from, to), path, || {
                self.other_type(path, original, &DataType::Hash(k.clone(), v.clone(), None, None))
            }),
            _ => vec![self.other_type(path, original, actual)],
        }
    }

    fn structure(&self, own: &[Field], original: &DataType, actual: &DataType, path: &[Step]) -> Faults {
        match actual {
            DataType::Struct(fields) => self.entries(own, fields, path),
            DataType::Hash(k, v, from, to) => {
                let (least, most) = struct_size(own);
                self.whole((&Some(least), &Some(most)), (from, to), path, || {
                    self.other_type(path, original, &DataType::Hash(k.clone(), v.clone(), None, None))
                })
            }
            _ => vec![self.other_type(path, original, actual)],
        }
    }

    fn entries(&self, own: &[Field], fields: &[Field], path: &[Step]) -> Faults {
        let by_name = |fields: &[Field]| -> rustc_hash::FxHashMap<EcoString, usize> {
            fields.iter().enumerate().map(|(index, field)| (field.name.clone(), index)).collect()
        };
        let given = by_name(fields);
        let mut faults = Vec::new();
        for field in own {
            match given.get(&field.name) {
                None if field.optional => {}
                None => faults.push(fault(path, Problem::Missing(field.name.clone()))),
                Some(index) => {
                    let path = at(path, Step::Entry(field.name.clone()));
                    faults.extend(self.describe(&field.data_type, &fields[*index].data_type, &path));
                }
            }
        }
        let known = by_name(own);
        let unknown = fields.iter().filter(|field| !known.contains_key(&field.name));
        faults.extend(unknown.take(MAX_REPORTED_FAULTS).map(|field| fault(path, Problem::Unknown(field.name.clone()))));
        faults
    }
}

fn wrong_size((from, to): (&Option<u64>, &Option<u64>), count: u64, path: &[Step]) -> Option<MismatchFault> {
    let (expected, actual) = ((from.unwrap_or(0), *to), (count, Some(count)));
    let fits = within_size(from, to, count, Some(count));
    (!fits).then(|| fault(path, Problem::Size { expected, actual }))
}

/// Merges the faults of all variants into one fault, if each variant has the same kind of fault in the same
/// place. `depth` is the index of the variant step in the paths.
fn merged(all: Vec<Faults>, depth: usize) -> Faults {
    let choices = all.len();
    let faults: Faults = all.into_iter().flatten().collect();
    let kinds: [fn(&Problem) -> bool; 2] = [
        |problem| matches!(problem, Problem::Size { .. }),
        |problem| matches!(problem, Problem::Type { .. } | Problem::Pattern { .. }),
    ];
    let one = kinds.iter().find_map(|kind| {
        let alike: Vec<&MismatchFault> = faults.iter().filter(|fault| kind(&fault.problem)).collect();
        let (first, rest) = alike.split_first()?;
        let same_place = rest.iter().all(|fault| first.place().eq(fault.place()));
        (alike.len() == choices && same_place)
            .then(|| rest.iter().fold((*first).clone(), |whole, fault| join(whole, fault)))
    });
    let mut faults = one.map_or(faults, |one| vec![one]);
    if let ([fault], true) = (faults.as_mut_slice(), true)
        && depth < fault.path.len()
    {
        fault.path.remove(depth);
    }
    faults
}

/// Merges two faults of the same kind.
fn join(whole: MismatchFault, other: &MismatchFault) -> MismatchFault {
    let either = |a: DataType, b: &DataType| DataType::either(vec![a, b.clone()]).normalized();
    let problem = match (whole.problem, &other.problem) {
        (Problem::Size { expected: (a, b), actual }, Problem::Size { expected: (c, d), .. }) => {
            let most = b.zip(*d).map(|(b, d)| b.max(d));
            Problem::Size { expected: (a.min(*c), most), actual }
        }
        (
            Problem::Type { expected, actual },
            Problem::Type { expected: next, .. } | Problem::Pattern { expected: next, .. },
        ) => Problem::Type { expected: either(expected, next), actual },
        (
            Problem::Pattern { expected, actual },
            Problem::Type { expected: next, .. } | Problem::Pattern { expected: next, .. },
        ) => Problem::Pattern { expected: either(expected, next), actual },
        (problem, _) => problem,
    };
    MismatchFault { path: whole.path, problem }
}
