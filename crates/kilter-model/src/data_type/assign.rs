//! Assignability: tests if all values of a type belong to another type.

use ecow::EcoString;

use super::{DataType, Field};

/// Treatment of sensitive values in type checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seals {
    /// A type accepts a secret if it accepts the content, and the other way round.
    Ignored,
    /// `Sensitive[T]` accepts secrets, and no other type does.
    Exact,
}

/// Pairs of aliases under comparison. A repeated pair counts as assignable, so that recursive types terminate.
type Pairs = Vec<(EcoString, EcoString)>;

impl DataType {
    /// Returns true if every value of `other` is a value of this type.
    pub fn accepts_type(&self, other: &DataType) -> bool {
        self.takes(other, Seals::Exact)
    }

    pub(super) fn takes(&self, other: &DataType, seals: Seals) -> bool {
        takes(self, other, seals, &mut Vec::new())
    }

    /// Returns the definition of an alias or of a built-in union type such as `Data`.
    pub(super) fn unfolded(&self) -> Option<DataType> {
        let text = || Box::new(DataType::text());
        let hash = |of: DataType| DataType::Hash(text(), Box::new(of), None, None);
        let array = |of: DataType| DataType::Array(Box::new(of), None, None);
        match self {
            DataType::Data => Some(DataType::Optional(Box::new(DataType::Variant(vec![
                DataType::ScalarData,
                hash(DataType::Data),
                array(DataType::Data),
            ])))),
            DataType::RichData => Some(DataType::Optional(Box::new(DataType::Variant(vec![
                DataType::Scalar,
                DataType::SemVerRange,
                DataType::Binary,
                DataType::Sensitive(Box::new(DataType::Any)),
                DataType::Type(Box::new(DataType::Any)),
                DataType::Default,
                hash(DataType::RichData),
                array(DataType::RichData),
            ])))),
            DataType::Alias(alias) => Some(alias.definition()),
            _ => None,
        }
    }

    pub(super) fn name_of_alias(&self) -> Option<EcoString> {
        match self {
            DataType::Data => Some("Data".into()),
            DataType::RichData => Some("RichData".into()),
            DataType::Alias(alias) => Some(alias.name.clone()),
            _ => None,
        }
    }
}

fn takes(this: &DataType, other: &DataType, seals: Seals, pairs: &mut Pairs) -> bool {
    if this == other {
        return true;
    }
    if let Some(name) = other.name_of_alias() {
        return takes_alias(this, other, name, seals, pairs);
    }
    match other {
        DataType::Unit => true,
        DataType::Variant(_) if *this == DataType::Any => true,
        DataType::Variant(types) => match this {
            DataType::Variant(own) if own.is_empty() => true,
            DataType::NotUndef(_) if types.is_empty() => false,
            _ => !types.is_empty() && types.iter().all(|part| takes(this, part, seals, pairs)),
        },
        DataType::Optional(inner) => takes(this, &DataType::Undef, seals, pairs) && takes(this, inner, seals, pairs),
        DataType::NotUndef(inner) if **inner != DataType::Any && !inner.takes(&DataType::Undef, seals) => {
            takes(this, inner, seals, pairs)
        }
        _ => takes_plain(this, other, seals, pairs),
    }
}

/// Compares with the definition of an alias. Definitions may be recursive.
fn takes_alias(this: &DataType, other: &DataType, name: EcoString, seals: Seals, pairs: &mut Pairs) -> bool {
    if *this == DataType::Any {
        return true;
    }
    let definition = other.unfolded().expect("what has a name of its own has a definition");
    let Some(own) = this.name_of_alias() else {
        return takes(this, &definition, seals, pairs);
    };
    let pair = (own, name);
    if pairs.contains(&pair) {
        return true;
    }
    pairs.push(pair);
    let own = this.unfolded().expect("what has a name of its own has a definition");
    let taken = takes(&own, &definition, seals, pairs);
    pairs.pop();
    taken
}

/// Returns true if values of `other` are values of `this`. `other` is not a variant.
fn takes_plain(this: &DataType, other: &DataType, seals: Seals, pairs: &mut Pairs) -> bool {
    if seals == Seals::Ignored {
        if let DataType::Sensitive(inner) = other {
            return takes(this, inner, seals, pairs);
        }
        if let DataType::Sensitive(inner) = this {
            return takes(inner, other, seals, pairs);
        }
    }
    match (this, other) {
        (DataType::Any | DataType::Unit, _)
        | (DataType::Undef | DataType::Optional(_), DataType::Undef)
        | (DataType::Default, DataType::Default)
        | (DataType::Binary, DataType::Binary)
        | (DataType::SemVerRange, DataType::SemVerRange) => true,
        (DataType::Boolean(wanted), DataType::Boolean(truth)) => wanted.is_none() || wanted == truth,
        (DataType::Integer(a, b), DataType::Integer(c, d)) => spans(a, b, c, d),
        (DataType::Float(a, b), DataType::Float(c, d)) => spans(a, b, c, d),
        (DataType::Timestamp(a, b), DataType::Timestamp(c, d)) => spans(a, b, c, d),
        (DataType::Timespan(a, b), DataType::Timespan(c, d)) => spans(a, b, c, d),
        (DataType::Numeric, DataType::Float(from, _)) => !from.is_some_and(f64::is_nan),
        (DataType::Numeric, DataType::Numeric | DataType::Integer(..)) => true,
        (DataType::SemVer(own), DataType::SemVer(ranges)) => {
            own.is_empty() || !ranges.is_empty() && ranges.iter().all(|range| own.iter().any(|wide| wide.covers(range)))
        }
        (DataType::Regexp(own), DataType::Regexp(regexp)) => own.is_none() || own == regexp,
        (DataType::Scalar, other) => is_scalar(other),
        (DataType::ScalarData, other) => is_scalar_data(other),
        (DataType::String(..) | DataType::Literal(_) | DataType::Enum(_) | DataType::EnumAnyCase(_), other)
        | (DataType::Pattern(_), other) => takes_text(this, other),
        (DataType::Collection(from, to), other) => size_of(other).is_some_and(|(a, b)| within_size(from, to, a, b)),
        (DataType::Array(of, from, to), DataType::Tuple(types, a, b)) => {
            let (a, b) = tuple_size(types, a, b);
            within_size(from, to, a, b) && types.iter().all(|part| takes(of, part, seals, pairs))
        }
        (DataType::Array(of, from, to), DataType::Array(part, a, b)) => {
            within_size(from, to, a.unwrap_or(0), *b) && takes(of, part, seals, pairs)
        }
        (DataType::Hash(keys, of, from, to), DataType::Hash(k, v, a, b)) => {
            let empty = *b == Some(0) && from.unwrap_or(0) == 0;
            let parts = takes(keys, k, seals, pairs) && takes(of, v, seals, pairs);
            empty || parts && within_size(from, to, a.unwrap_or(0), *b)
        }
        (DataType::Hash(keys, of, from, to), DataType::Struct(fields)) => {
            let (a, b) = struct_size(fields);
            let fits = |field: &Field| {
                takes(keys, &DataType::Literal(field.name.clone()), seals, &mut Vec::new())
                    && takes(of, &field.data_type, seals, &mut Vec::new())
            };
            within_size(from, to, a, Some(b)) && fields.iter().all(fits)
        }
        (DataType::Struct(own), DataType::Struct(fields)) => struct_takes_struct(own, fields, seals, pairs),
        (DataType::Struct(own), DataType::Hash(keys, of, a, b)) => {
            let (least, most) = struct_size(own);
            let fits = |field: &Field| {
                takes(&field.data_type, of, seals, &mut Vec::new())
                    && takes(&DataType::text(), keys, seals, &mut Vec::new())
            };
            own.iter().filter(|field| !field.optional).all(fits)
                && within_size(&Some(least), &Some(most), a.unwrap_or(0), *b)
        }
        (DataType::Tuple(own, from, to), DataType::Tuple(types, a, b)) => {
            let ((least, most), (a, b)) = (tuple_size(own, from, to), tuple_size(types, a, b));
            let at = |index: usize| own.get(index).or(own.last());
            within_size(&Some(least), &most, a, b)
                && (0..types.len()).all(|i| at(i).is_none_or(|own| takes(own, &types[i], seals, pairs)))
        }
        (DataType::Tuple(own, from, to), DataType::Array(of, a, b)) => {
            let (least, most) = tuple_size(own, from, to);
            let count = own.len().min(b.map_or(usize::MAX, |b| usize::try_from(b).unwrap_or(usize::MAX)));
            within_size(&Some(least), &most, a.unwrap_or(0), *b)
                && own[..count].iter().all(|own| takes(own, of, seals, pairs))
        }
        (DataType::Init(own), DataType::Init(inner)) => takes(own, inner, seals, pairs),
        (DataType::Iterable(of), other) => takes_elements(of, other, seals, pairs),
        (DataType::Variant(own), _) => own.iter().any(|own| takes(own, other, seals, pairs)),
        (DataType::Optional(own), _) | (DataType::Init(own), _) => takes(own, other, seals, pairs),
        (DataType::NotUndef(own), _) => !other.takes(&DataType::Undef, seals) && takes(own, other, seals, pairs),
        (DataType::Sensitive(own), DataType::Sensitive(inner)) => takes(own, inner, seals, pairs),
        (DataType::Type(own), DataType::Type(inner)) => **own == DataType::Any || takes(own, inner, seals, pairs),
        (DataType::Data | DataType::RichData | DataType::Alias(_), _) => {
            this.unfolded().is_some_and(|own| takes(&own, other, seals, pairs))
        }
        (DataType::Foreign(_) | DataType::TypeReference(_), _) => this == other,
        _ => false,
    }
}

fn struct_takes_struct(own: &[Field], fields: &[Field], seals: Seals, pairs: &mut Pairs) -> bool {
    let mut matched = 0;
    let fits = own.iter().all(|field| match fields.iter().find(|other| other.name == field.name) {
        None => field.optional,
        Some(other) => {
            matched += 1;
            (field.optional || !other.optional) && takes(&field.data_type, &other.data_type, seals, pairs)
        }
    });
    fits && matched == fields.len()
}

fn takes_text(this: &DataType, other: &DataType) -> bool {
    match (this, other) {
        (DataType::String(from, to), other) => length_of(other).is_some_and(|(a, b)| within_size(from, to, a, b)),
        (_, DataType::Literal(text)) => holds_text(this, text),
        (DataType::EnumAnyCase(_), DataType::Enum(words) | DataType::EnumAnyCase(words))
        | (_, DataType::Enum(words)) => !words.is_empty() && words.iter().all(|word| holds_text(this, word)),
        (DataType::Pattern(patterns), other) => patterns.is_empty() && length_of(other).is_some(),
        _ => false,
    }
}

fn holds_text(this: &DataType, text: &EcoString) -> bool {
    match this {
        DataType::Literal(own) => own == text,
        DataType::Enum(words) => words.contains(text),
        DataType::EnumAnyCase(words) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
        DataType::Pattern(patterns) => {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(text).unwrap_or(false))
        }
        _ => false,
    }
}

/// Returns the minimum and maximum length of the texts of a type.
fn length_of(data_type: &DataType) -> Option<(u64, Option<u64>)> {
    match data_type {
        DataType::String(from, to) => Some((from.unwrap_or(0), *to)),
        DataType::Literal(text) => {
            let length = text.chars().count() as u64;
            Some((length, Some(length)))
        }
        DataType::Enum(words) | DataType::EnumAnyCase(words) => {
            let lengths = || words.iter().map(|word| word.chars().count() as u64);
            Some((lengths().min().unwrap_or(0), lengths().max()))
        }
        DataType::Pattern(_) => Some((0, None)),
        _ => None,
    }
}

pub(super) fn is_scalar_data(data_type: &DataType) -> bool {
    let plain = matches!(
        data_type,
        DataType::ScalarData | DataType::Boolean(_) | DataType::Integer(..) | DataType::Float(..) | DataType::Numeric
    );
    plain || length_of(data_type).is_some()
}

fn is_scalar(data_type: &DataType) -> bool {
    let rich = matches!(
        data_type,
        DataType::Scalar
            | DataType::Regexp(_)
            | DataType::SemVer(_)
            | DataType::SemVerRange
            | DataType::Timestamp(..)
            | DataType::Timespan(..)
    );
    rich || is_scalar_data(data_type)
}

fn takes_elements(of: &DataType, other: &DataType, seals: Seals, pairs: &mut Pairs) -> bool {
    match other {
        DataType::Iterable(inner) | DataType::Array(inner, ..) => takes(of, inner, seals, pairs),
        DataType::Tuple(types, ..) => types.iter().all(|part| takes(of, part, seals, pairs)),
        DataType::Hash(keys, values, ..) => {
            let pair = DataType::Tuple(vec![(**keys).clone(), (**values).clone()], None, None);
            takes(of, &pair, seals, pairs)
        }
        DataType::Struct(fields) => fields.iter().all(|field| {
            let key = DataType::Literal(field.name.clone());
            takes(of, &DataType::Tuple(vec![key, field.data_type.clone()], None, None), seals, &mut Vec::new())
        }),
        DataType::Integer(from, _) if *of == DataType::Any => from.is_some_and(|from| from >= 0),
        DataType::Integer(..) => takes(of, &DataType::Integer(None, None), seals, pairs),
        text if length_of(text).is_some() => takes(of, &DataType::String(Some(1), Some(1)), seals, pairs),
        DataType::Type(inner) => match &**inner {
            DataType::Integer(Some(_), Some(_)) => takes(of, &DataType::Integer(None, None), seals, pairs),
            words @ DataType::Enum(_) => takes(of, words, seals, pairs),
            _ => false,
        },
        _ => false,
    }
}

/// Returns true if the range from `a` to `b` contains the range from `c` to `d`. None means unbounded.
fn spans<T: PartialOrd>(a: &Option<T>, b: &Option<T>, c: &Option<T>, d: &Option<T>) -> bool {
    let low = a.as_ref().is_none_or(|a| c.as_ref().is_some_and(|c| a <= c));
    let high = b.as_ref().is_none_or(|b| d.as_ref().is_some_and(|d| d <= b));
    low && high
}

pub(super) fn within_size(from: &Option<u64>, to: &Option<u64>, a: u64, b: Option<u64>) -> bool {
    from.unwrap_or(0) <= a && to.is_none_or(|to| b.is_some_and(|b| b <= to))
}

/// Returns the minimum and maximum number of elements of a collection type.
fn size_of(data_type: &DataType) -> Option<(u64, Option<u64>)> {
    match data_type {
        DataType::Collection(from, to) | DataType::Array(_, from, to) | DataType::Hash(_, _, from, to) => {
            Some((from.unwrap_or(0), *to))
        }
        DataType::Tuple(types, from, to) => Some(tuple_size(types, from, to)),
        DataType::Struct(fields) => {
            let (least, most) = struct_size(fields);
            Some((least, Some(most)))
        }
        _ => None,
    }
}

pub(super) fn tuple_size(types: &[DataType], from: &Option<u64>, to: &Option<u64>) -> (u64, Option<u64>) {
    let count = types.len() as u64;
    match (from, to) {
        (None, None) if types.is_empty() => (0, None),
        (None, None) => (count, Some(count)),
        (from, to) => (from.unwrap_or(0), *to),
    }
}

pub(super) fn struct_size(fields: &[Field]) -> (u64, u64) {
    (fields.iter().filter(|field| !field.optional).count() as u64, fields.len() as u64)
}
