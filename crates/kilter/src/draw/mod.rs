//! Drawings of a graph: the same input gives the same drawing, byte by byte.

mod dot;
mod json;
mod layout;
mod list;
mod mermaid;
mod order;
mod place;
mod svg;

use kilter_engine::{Origin, Reason};
use kilter_runtime::Prepared;

pub(crate) use dot::dot;
pub(crate) use json::json;
pub(crate) use list::list;
pub(crate) use mermaid::mermaid;
pub(crate) use svg::svg;

/// Drawing: resources in manifest order, and the order between them.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    nodes: Vec<DrawnNode>,
    edges: Vec<Edge>,
    /// Number of resources whose `when` was false.
    left_out: usize,
}

#[derive(Debug)]
struct DrawnNode {
    type_name: String,
    title: String,
    /// State in a run; none in a drawing of the manifest.
    state: Option<String>,
}

impl DrawnNode {
    fn label(&self) -> String {
        format!("{}[{}]", self.type_name, self.title)
    }

    /// Returns the label with the state.
    fn caption(&self) -> String {
        match &self.state {
            Some(state) => format!("{}: {state}", self.label()),
            None => self.label(),
        }
    }

    /// Returns the colour of the state.
    fn colour(&self) -> Option<&'static str> {
        Some(match self.state.as_deref()? {
            "in_sync" => "#d9f2dc",
            "failed" => "#f8c9c9",
            "skipped" => "#fbdfc0",
            "would_change" | "would_refresh" => "#fbf1bd",
            "unwatched" | "waiting" | "ready" | "checking" | "changing" | "refreshing" | "delayed" => "#cfe3fb",
            _ => "#e8e8e8",
        })
    }
}

/// Edge: `first` comes before `second`; both are indexes of nodes.
#[derive(Clone, Debug)]
struct Edge {
    first: usize,
    second: usize,
    notify: bool,
    from: From,
}

/// Origin of an edge.
#[derive(Clone, Debug, PartialEq)]
enum From {
    /// A relation with this keyword.
    Written(&'static str),
    /// A value for this attribute.
    Value(String),
    /// An automatic edge with this reason.
    Automatic(&'static str),
}

impl Edge {
    /// Returns the text beside the edge.
    fn label(&self) -> String {
        match self.from {
            From::Written("notify" | "subscribe") if !self.notify => format!("{}, order only", self.from.label()),
            _ => self.from.label(),
        }
    }
}

impl From {
    fn label(&self) -> String {
        match self {
            From::Written(word) => (*word).to_owned(),
            From::Value(attribute) => format!("value of {attribute}"),
            From::Automatic(reason) => format!("automatic: {reason}"),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            From::Written(_) => "written",
            From::Value(_) => "value",
            From::Automatic(_) => "automatic",
        }
    }
}

impl Drawing {
    /// Returns the drawing of a run.
    pub(crate) fn of(prepared: &Prepared) -> Drawing {
        let node = |resource: &kilter_model::Resource| DrawnNode {
            type_name: resource.reference.type_name.to_string(),
            title: resource.reference.title.to_string(),
            state: None,
        };
        let edges = prepared.graph().edges().iter().map(|edge| Edge {
            first: edge.from.slot(),
            second: edge.to.slot(),
            notify: edge.notify,
            from: from(edge, prepared),
        });
        let nodes = prepared.resources().iter().map(|one| node(one)).collect();
        Drawing { nodes, edges: edges.collect(), left_out: prepared.left_out() }
    }
}

impl Drawing {
    /// Adds the state of each resource. Resources that the run does not hold have none.
    pub(crate) fn standing(&mut self, state_of: &dyn Fn(&str) -> Option<String>) {
        for node in &mut self.nodes {
            node.state = Some(state_of(&node.label()).unwrap_or_else(|| "not held".to_owned()));
        }
    }
}

fn from(edge: &kilter_engine::Edge, prepared: &Prepared) -> From {
    match edge.origin {
        Origin::Written { kind, .. } => From::Written(kind.word()),
        Origin::Automatic(Reason::Directory) => From::Automatic("directory"),
        Origin::Automatic(Reason::Name) => From::Automatic("name"),
        Origin::Automatic(Reason::Number) => From::Automatic("number"),
        Origin::Automatic(Reason::Member) => From::Automatic("member"),
        Origin::Automatic(Reason::Owner) => From::Automatic("owner"),
        Origin::Automatic(Reason::Suitability) => From::Automatic("suitability"),
        Origin::Automatic(Reason::Type) => From::Automatic("type"),
        Origin::Output { span } => {
            let deferred = prepared.resource(edge.to).deferred();
            let here = |place: &kilter_model::Span| {
                place.source == span.source && place.start <= span.start && span.end <= place.end
            };
            let attribute = deferred.iter().find(|deferred| here(&deferred.span));
            From::Value(attribute.map_or_else(|| "an attribute".to_owned(), |deferred| deferred.attribute.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing() -> Drawing {
        let node = |type_name: &str, title: &str| DrawnNode {
            type_name: type_name.to_owned(),
            title: title.to_owned(),
            state: None,
        };
        let edge = |first, second, notify, from| Edge { first, second, notify, from };
        Drawing {
            nodes: vec![
                node("service", "a\"b"),
                node("file", "/etc/<a>"),
                node("file", "/etc"),
                node("notify", "alone"),
            ],
            edges: vec![
                edge(1, 0, true, From::Written("notify")),
                edge(2, 0, false, From::Value("content".to_owned())),
                edge(2, 1, false, From::Automatic("directory")),
            ],
            left_out: 2,
        }
    }

    #[test]
    fn list_is_in_execution_order() {
        let text = anstream::adapter::strip_str(&list(&drawing())).to_string();
        let expected = "\
file[/etc]
file[/etc/<a>]
    after file[/etc] (automatic: directory)
service[a\"b]
    after file[/etc/<a>] (notify), refreshed by its changes
    after file[/etc] (value of content)
notify[alone]
4 resources, 3 edges: 1 written, 1 value, 1 automatic; 2 left out by `when`
";
        assert_eq!(text, expected);
    }

    #[test]
    fn dot_is_quoted_and_dashed_where_it_notifies() {
        let expected = r#"digraph kilter {
  rankdir=LR;
  node [shape=box, style=rounded, fontname="monospace"];
  edge [fontname="sans-serif", fontsize=10];
  r0 [label="service[a\"b]"];
  r1 [label="file[/etc/<a>]"];
  r2 [label="file[/etc]"];
  r3 [label="notify[alone]"];
  r1 -> r0 [label="notify", style=dashed];
  r2 -> r0 [label="value of content", color="blue"];
  r2 -> r1 [label="automatic: directory", color="gray"];
}
"#;
        assert_eq!(dot(&drawing()), expected);
    }

    #[test]
    fn mermaid_is_escaped() {
        let expected = "\
flowchart LR
  r0[\"service[a#quot;b]\"]
  r1[\"file[/etc/#lt;a#gt;]\"]
  r2[\"file[/etc]\"]
  r3[\"notify[alone]\"]
  r1 -. \"notify\" .-> r0
  r2 -- \"value of content\" --> r0
  r2 -- \"automatic: directory\" --> r1
";
        assert_eq!(mermaid(&drawing()), expected);
    }

    #[test]
    fn json_has_origin_and_reason() {
        let json = json(&drawing());
        assert_eq!(json["edges"][0]["origin"], "written");
        assert_eq!(json["edges"][0]["word"], "notify");
        assert_eq!(json["edges"][2]["reason"], "directory");
        assert_eq!(json["edges"][1]["attribute"], "content");
        assert_eq!(json["resources"][3], "notify[alone]");
    }

    #[test]
    fn a_picture_holds_every_resource_and_edge_and_is_the_same_each_time() {
        let picture = svg(&drawing());
        assert_eq!(picture, svg(&drawing()));
        assert_eq!(picture.matches("<rect class=\"node\"").count(), 4);
        assert_eq!(picture.matches("<path class=\"edge").count(), 3);
        assert!(picture.contains("file[/etc/&lt;a&gt;]"));
        assert!(picture.contains("edge notify"));
    }

    #[test]
    fn status_is_in_every_drawing() {
        let mut drawing = drawing();
        drawing.standing(&|name| (name != "notify[alone]").then(|| "failed".to_owned()));
        assert!(
            dot(&drawing)
                .contains("r2 [label=\"file[/etc]: failed\", style=\"rounded,filled\", fillcolor=\"#f8c9c9\"]")
        );
        assert!(mermaid(&drawing).contains("r2[\"file[/etc]: failed\"]\n  style r2 fill:#f8c9c9\n"));
        assert_eq!(json(&drawing)["states"]["notify[alone]"], "not held");
        assert!(svg(&drawing).contains("fill=\"#f8c9c9\""));
        let text = anstream::adapter::strip_str(&list(&drawing)).to_string();
        assert!(text.contains("file[/etc]: failed\n"), "{text}");
    }

    #[test]
    fn an_empty_graph_can_be_drawn() {
        let empty = Drawing::default();
        assert!(svg(&empty).ends_with("</svg>\n"));
        assert_eq!(list(&empty), "0 resources, 0 edges\n");
    }
}
