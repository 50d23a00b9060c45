//! Pending refreshes per edge, and when they are journalled.
//!
//! The rule is "a refresh delivered once": several changes before a refresh need only one, and a successful refresh
//! is not repeated. A crash loses no refresh, but it can repeat the refresh that it interrupts.

use super::{Command, Machine, RefreshToken};
use crate::graph::EdgeId;
use crate::resource_id::ResourceId;
use crate::vertex::RefreshState;

impl Machine {
    /// Returns the pending refreshes.
    pub fn owed(&self) -> Vec<RefreshToken> {
        let edges = (0..self.owed.len() as u32).map(EdgeId);
        let along = edges.filter(|edge| self.is_owed(*edge)).map(|edge| self.token(edge));
        let orphaned = self.graph.vertices().filter(|v| self.orphaned[v.slot()] != RefreshState::Idle);
        along.chain(orphaned.map(RefreshToken::orphaned)).collect()
    }

    /// Returns true if a refresh is pending along an edge.
    pub fn is_owed(&self, edge: EdgeId) -> bool {
        self.owed[edge.index()] != RefreshState::Idle
    }

    /// Returns true if a refresh of a vertex is pending.
    pub fn is_owed_to(&self, vertex: ResourceId) -> bool {
        self.orphaned[vertex.slot()] != RefreshState::Idle
            || self.graph.incoming(vertex).iter().any(|edge| self.is_owed(*edge))
    }

    /// Returns the pending refreshes of a vertex.
    pub fn owed_to(&self, vertex: ResourceId) -> Vec<RefreshToken> {
        let along =
            self.graph.incoming(vertex).iter().filter(|edge| self.is_owed(**edge)).map(|edge| self.token(*edge));
        let orphaned = (self.orphaned[vertex.slot()] != RefreshState::Idle).then_some(RefreshToken::orphaned(vertex));
        along.chain(orphaned).collect()
    }

    /// Marks vertices whose refresh is pending from an earlier run as possibly failed, because that run may
    /// have tried the refresh and failed.
    pub(super) fn remember_failures(&mut self, owed: &[RefreshToken]) {
        owed.iter().for_each(|token| self.progress[token.second.slot()].refresh_failed = true);
    }

    pub(super) fn has_would(&self, vertex: ResourceId) -> bool {
        self.graph.incoming(vertex).iter().any(|edge| self.would_notify[edge.index()])
    }

    fn token(&self, edge: EdgeId) -> RefreshToken {
        let edge = self.graph.edge(edge);
        RefreshToken { first: edge.from, second: edge.to }
    }

    /// Journals the refreshes that a change or refresh of these vertices causes. Called before the change.
    pub(super) fn journal_refreshes(&mut self, vertices: &[ResourceId]) {
        let mut tokens = Vec::new();
        for &vertex in vertices {
            for edge in self.graph.outgoing(vertex) {
                let receiver = self.graph.edge(edge).to;
                let owes = self.graph.edge(edge).notify && self.vertices[receiver.slot()].refreshable;
                // A refresh in progress belongs to an earlier change, so this change needs another refresh.
                if owes && std::mem::replace(&mut self.owed[edge.index()], RefreshState::Pending) == RefreshState::Idle
                {
                    tokens.push(self.token(edge));
                }
            }
        }
        if !tokens.is_empty() {
            self.commands.push(Command::JournalRefresh(tokens));
        }
    }

    /// Handles a failed journal write. The change that would cause the refresh is not made, so the refresh is
    /// not pending.
    pub(super) fn unrecorded(&mut self, token: RefreshToken) {
        if let Some(edge) = self.graph.find(token.first, token.second)
            && self.owed[edge.index()] == RefreshState::Pending
        {
            self.owed[edge.index()] = RefreshState::Idle;
        }
    }

    /// Marks the pending refreshes of a vertex as in progress.
    pub(super) fn mark_in_progress(&mut self, vertex: ResourceId) {
        for &edge in self.graph.incoming(vertex) {
            let owed_refresh = &mut self.owed[edge.index()];
            if *owed_refresh == RefreshState::Pending {
                *owed_refresh = RefreshState::InProgress;
            }
        }
        let orphaned = &mut self.orphaned[vertex.slot()];
        if *orphaned == RefreshState::Pending {
            *orphaned = RefreshState::InProgress;
        }
    }

    /// Clears the refreshes in progress of a vertex, and removes them from the journal.
    pub(super) fn clear_refreshes(&mut self, vertex: ResourceId) {
        self.progress[vertex.slot()].refresh_failed = false;
        let mut tokens = Vec::new();
        for &edge in self.graph.incoming(vertex) {
            if self.owed[edge.index()] == RefreshState::InProgress {
                self.owed[edge.index()] = RefreshState::Idle;
                tokens.push(self.token(edge));
            }
        }
        if self.orphaned[vertex.slot()] == RefreshState::InProgress {
            self.orphaned[vertex.slot()] = RefreshState::Idle;
            tokens.push(RefreshToken::orphaned(vertex));
        }
        if !tokens.is_empty() {
            self.commands.push(Command::ClearRefresh(tokens));
        }
    }
}
