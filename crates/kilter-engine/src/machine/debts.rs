//! Pending refreshes per edge, and when they are journalled.

use super::{Command, Machine, Token};
use crate::graph::{EdgeId, VertexId};
use crate::vertex::Debt;

impl Machine {
    /// Returns the pending refreshes.
    pub fn owed(&self) -> Vec<Token> {
        let edges = (0..self.owed.len() as u32).map(EdgeId);
        let along = edges.filter(|edge| self.is_owed(*edge)).map(|edge| self.token(edge));
        let inherited = self.graph.vertices().filter(|v| self.inherited[v.at()] != Debt::Nothing);
        along.chain(inherited.map(Token::inherited)).collect()
    }

    /// Returns true if a refresh is pending along an edge.
    pub fn is_owed(&self, edge: EdgeId) -> bool {
        self.owed[edge.at()] != Debt::Nothing
    }

    /// Returns true if a refresh of a vertex is pending.
    pub fn is_owed_to(&self, vertex: VertexId) -> bool {
        self.inherited[vertex.at()] != Debt::Nothing
            || self.graph.entering(vertex).iter().any(|edge| self.is_owed(*edge))
    }

    /// Returns the pending refreshes of a vertex.
    pub fn owed_to(&self, vertex: VertexId) -> Vec<Token> {
        let along =
            self.graph.entering(vertex).iter().filter(|edge| self.is_owed(**edge)).map(|edge| self.token(*edge));
        let inherited = (self.inherited[vertex.at()] != Debt::Nothing).then_some(Token::inherited(vertex));
        along.chain(inherited).collect()
    }

    /// Marks vertices whose refresh is pending from an earlier run as possibly failed, because that run may
    /// have tried the refresh and failed.
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

    /// Journals the refreshes that a change or refresh of these vertices causes. Called before the change.
    pub(super) fn owe(&mut self, vertices: &[VertexId]) {
        let mut tokens = Vec::new();
        for &vertex in vertices {
            for edge in self.graph.leaving(vertex) {
                let receiver = self.graph.edge(edge).second;
                let owes = self.graph.edge(edge).notify && self.vertices[receiver.at()].refreshable;
                // A refresh in progress belongs to an earlier change, so this change needs another refresh.
                if owes && std::mem::replace(&mut self.owed[edge.at()], Debt::Owed) == Debt::Nothing {
                    tokens.push(self.token(edge));
                }
            }
        }
        if !tokens.is_empty() {
            self.commands.push(Command::Owe(tokens));
        }
    }

    /// Handles a failed journal write. The change that would cause the refresh is not made, so the refresh is
    /// not pending.
    pub(super) fn unrecorded(&mut self, token: Token) {
        if let Some(edge) = self.graph.find(token.first, token.second)
            && self.owed[edge.at()] == Debt::Owed
        {
            self.owed[edge.at()] = Debt::Nothing;
        }
    }

    /// Marks the pending refreshes of a vertex as in progress.
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

    /// Clears the refreshes in progress of a vertex, and removes them from the journal.
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
