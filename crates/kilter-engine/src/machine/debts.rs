//! What is owed along the edges, and when that is journalled.

use super::{Command, Machine, Token};
use crate::graph::{EdgeId, VertexId};
use crate::vertex::Debt;

impl Machine {
    /// The refreshes that are owed.
    pub fn owed(&self) -> Vec<Token> {
        let edges = (0..self.owed.len() as u32).map(EdgeId);
        let along = edges.filter(|edge| self.is_owed(*edge)).map(|edge| self.token(edge));
        let inherited = self.graph.vertices().filter(|v| self.inherited[v.at()] != Debt::Nothing);
        along.chain(inherited.map(Token::inherited)).collect()
    }

    /// Whether a refresh is owed along an edge.
    pub fn is_owed(&self, edge: EdgeId) -> bool {
        self.owed[edge.at()] != Debt::Nothing
    }

    /// Whether a refresh is owed to a vertex.
    pub fn is_owed_to(&self, vertex: VertexId) -> bool {
        self.inherited[vertex.at()] != Debt::Nothing
            || self.graph.entering(vertex).iter().any(|edge| self.is_owed(*edge))
    }

    /// The refreshes that are owed to a vertex.
    pub fn owed_to(&self, vertex: VertexId) -> Vec<Token> {
        let along =
            self.graph.entering(vertex).iter().filter(|edge| self.is_owed(**edge)).map(|edge| self.token(*edge));
        let inherited = (self.inherited[vertex.at()] != Debt::Nothing).then_some(Token::inherited(vertex));
        along.chain(inherited).collect()
    }

    /// Remembers what earlier runs owe: they may have failed in serving it.
    pub(super) fn remember_failures(&mut self, owed: &[Token]) {
        owed.iter().for_each(|token| self.progress[token.second.at()].refresh_failed = true);
    }

    pub(super) fn has_would(&self, vertex: VertexId) -> bool {
        self.graph.entering(vertex).iter().any(|edge| self.would[edge.at()])
    }

    fn token(&self, edge: EdgeId) -> Token {
        let edge = self.graph.edge(edge);
        Token { first: edge.first, second: edge.second }
    }

    /// Journals, before a vertex is changed or refreshed, what it will owe.
    pub(super) fn owe(&mut self, vertices: &[VertexId]) {
        let mut tokens = Vec::new();
        for &vertex in vertices {
            for edge in self.graph.leaving(vertex) {
                let receiver = self.graph.edge(edge).second;
                let owes = self.graph.edge(edge).notify && self.vertices[receiver.at()].refreshable;
                // What is being served now was owed for a change before this one.
                if owes && std::mem::replace(&mut self.owed[edge.at()], Debt::Owed) == Debt::Nothing {
                    tokens.push(self.token(edge));
                }
            }
        }
        if !tokens.is_empty() {
            self.commands.push(Command::Owe(tokens));
        }
    }

    /// A refresh could not be journalled: the change that would cause it is not made, so that it is not owed.
    pub(super) fn unrecorded(&mut self, token: Token) {
        if let Some(edge) = self.graph.find(token.first, token.second)
            && self.owed[edge.at()] == Debt::Owed
        {
            self.owed[edge.at()] = Debt::Nothing;
        }
    }

    /// What is owed to a vertex is served by what begins now.
    pub(super) fn serve(&mut self, vertex: VertexId) {
        for &edge in self.graph.entering(vertex) {
            let debt = &mut self.owed[edge.at()];
            if *debt == Debt::Owed {
                *debt = Debt::Served;
            }
        }
        let inherited = &mut self.inherited[vertex.at()];
        if *inherited == Debt::Owed {
            *inherited = Debt::Served;
        }
    }

    /// Takes what has been served to a vertex out of the journal.
    pub(super) fn pay(&mut self, vertex: VertexId) {
        self.progress[vertex.at()].refresh_failed = false;
        let mut tokens = Vec::new();
        for &edge in self.graph.entering(vertex) {
            if self.owed[edge.at()] == Debt::Served {
                self.owed[edge.at()] = Debt::Nothing;
                tokens.push(self.token(edge));
            }
        }
        if self.inherited[vertex.at()] == Debt::Served {
            self.inherited[vertex.at()] = Debt::Nothing;
            tokens.push(Token::inherited(vertex));
        }
        if !tokens.is_empty() {
            self.commands.push(Command::Paid(tokens));
        }
    }
}
