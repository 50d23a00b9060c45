//! Builds the tree of a manifest from the parts of a graph.

use ecow::{EcoString, eco_format};
use kilter_model::{SourceId, Span};

use crate::diagnostic::Diagnostic;
use crate::source::Sources;
use crate::tree::{Builder, NodeKind, Tree, View};

/// A value with its position.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// A text, also if it looks like another type.
    Text(EcoString, Span),
    /// A plain scalar: a number or a boolean.
    Plain(EcoString, Span),
    List(Vec<Piece>, Span),
    Mapping(Vec<(Piece, Piece)>, Span),
}

impl Piece {
    /// Returns a user or a group as a text or a number.
    pub(super) fn account(account: &EcoString, at: Span) -> Piece {
        let is_number = account.bytes().all(|byte| byte.is_ascii_digit());
        let piece = if is_number { Piece::Plain } else { Piece::Text };
        piece(account.clone(), at)
    }

    /// Returns its position.
    pub(super) fn span(&self) -> Span {
        match self {
            Piece::Text(_, at) | Piece::Plain(_, at) | Piece::List(_, at) | Piece::Mapping(_, at) => *at,
        }
    }

    /// Copies a value; returns none if aliases expand to more than `left` nodes.
    pub(super) fn copy(view: View<'_>, left: &mut usize) -> Option<Piece> {
        *left = left.checked_sub(1)?;
        let at = view.span();
        Some(match view.kind() {
            NodeKind::Sequence => {
                let elements = view.elements().map(|element| Piece::copy(element, left));
                Piece::List(elements.collect::<Option<_>>()?, at)
            }
            NodeKind::Mapping => {
                let entry = |(key, value): (View<'_>, View<'_>)| {
                    Some((Piece::Text(key.text().into(), key.span()), Piece::copy(value, left)?))
                };
                Piece::Mapping(view.entries().map(entry).collect::<Option<_>>()?, at)
            }
            NodeKind::Plain => Piece::Plain(view.text().into(), at),
            _ => Piece::Text(view.text().into(), at),
        })
    }
}

/// An attribute or a metaparameter.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: EcoString,
    pub(super) at: Span,
    pub(super) value: Piece,
}

/// A resource of a graph, converted to a resource of a manifest.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    /// Kind in the graph.
    pub(super) kind: &'static str,
    pub(super) title: EcoString,
    /// Reference in the manifest: `type[title]`.
    pub(super) reference: EcoString,
    pub(super) at: Span,
    pub(super) attributes: Vec<Attribute>,
    pub(super) meta: Option<(Span, Vec<Attribute>)>,
    /// References of the resources after it, with a flag that is true if an edge refreshes them.
    pub(super) followers: Vec<(EcoString, bool, Span)>,
    /// True if a problem was reported for it.
    pub(super) is_broken: bool,
}

impl Lowered {
    pub(super) fn new(kind: &'static str, type_name: &'static str, title: &str, at: Span) -> Lowered {
        let (attributes, followers) = (Vec::new(), Vec::new());
        let reference = eco_format!("{type_name}[{title}]");
        let (meta, is_broken) = (None, false);
        Lowered { kind, title: title.into(), reference, at, attributes, meta, followers, is_broken }
    }

    pub(super) fn push(&mut self, name: &str, at: Span, value: Piece) {
        self.attributes.push(Attribute { name: name.into(), at, value });
    }

    /// Exports the resource to all other machines. If `is_others`, it is not managed on this machine.
    pub(super) fn export(&mut self, is_others: bool) {
        let at = self.at;
        let everybody = Piece::List(vec![Piece::Text("*".into(), at)], at);
        let mut said = vec![Attribute { name: "export".into(), at, value: everybody }];
        if is_others {
            said.push(Attribute { name: "hidden".into(), at, value: Piece::Plain("true".into(), at) });
        }
        let (_, meta) = self.meta.get_or_insert((at, Vec::new()));
        meta.retain(|one| said.iter().all(|other| one.name != other.name));
        meta.extend(said);
    }

    /// Adds an attribute that the graph does not contain, at the position of the resource's name.
    pub(super) fn imply(&mut self, name: &str, value: &str) {
        let at = self.at;
        self.push(name, at, Piece::Plain(value.into(), at));
    }
}

/// Returns the tree of the resources and of `collect`, and the duplicate resources. `collected` has types of kilter.
pub(super) fn tree(
    resources: &[Lowered],
    collected: &[(Span, &str)],
    id: SourceId,
    sources: &Sources,
) -> (Tree, Vec<Diagnostic>) {
    let mut builder = Builder::new(id, sources);
    builder.start(NodeKind::Mapping, (0, 0), 0);
    builder.owned(NodeKind::Plain, (0, 0), "resources", 0);
    builder.start(NodeKind::Mapping, (0, 0), 0);
    // Problems of single resources have been reported. The compiler reports problems of the tree.
    for resource in resources.iter().filter(|resource| !resource.is_broken) {
        text(&mut builder, &resource.reference, resource.at);
        builder.start(NodeKind::Mapping, range(resource.at), 0);
        entries(&mut builder, &resource.attributes);
        if let Some((at, meta)) = &resource.meta {
            text(&mut builder, "meta", *at);
            builder.start(NodeKind::Mapping, range(*at), 0);
            entries(&mut builder, meta);
            builder.end();
        }
        for (word, notify) in [("before", false), ("notify", true)] {
            let followers = resource.followers.iter().filter(|(_, refreshed, _)| *refreshed == notify);
            let followers: Vec<Piece> = followers.map(|(to, _, at)| Piece::Text(to.clone(), *at)).collect();
            if !followers.is_empty() {
                text(&mut builder, word, resource.at);
                piece(&mut builder, &Piece::List(followers, resource.at));
            }
        }
        builder.end();
    }
    builder.end();
    if let Some((at, _)) = collected.first() {
        text(&mut builder, "collect", *at);
        let entry = |(at, type_name): &(Span, &str)| {
            let [key, value] = ["type", type_name].map(|text| Piece::Text(text.into(), *at));
            Piece::Mapping(vec![(key, value)], *at)
        };
        piece(&mut builder, &Piece::List(collected.iter().map(entry).collect(), *at));
    }
    builder.end();
    builder.finish_literal()
}

fn entries(builder: &mut Builder, attributes: &[Attribute]) {
    for attribute in attributes {
        text(builder, &attribute.name, attribute.at);
        piece(builder, &attribute.value);
    }
}

fn piece(builder: &mut Builder, value: &Piece) {
    match value {
        Piece::Text(value, at) => text(builder, value, *at),
        Piece::Plain(value, at) => builder.owned(NodeKind::Plain, range(*at), value, 0),
        Piece::List(values, at) => {
            builder.start(NodeKind::Sequence, range(*at), 0);
            values.iter().for_each(|value| piece(builder, value));
            builder.end();
        }
        Piece::Mapping(values, at) => {
            builder.start(NodeKind::Mapping, range(*at), 0);
            for (key, value) in values {
                piece(builder, key);
                piece(builder, value);
            }
            builder.end();
        }
    }
}

fn text(builder: &mut Builder, text: &str, at: Span) {
    builder.owned(NodeKind::Double, range(at), text, 0);
}

fn range(at: Span) -> (usize, usize) {
    (at.start as usize, at.end as usize)
}
