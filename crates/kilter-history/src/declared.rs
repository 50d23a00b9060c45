//! Current declarations of the managed resources.

use std::collections::HashMap;

use rusqlite::{OptionalExtension as _, params};

use crate::batch::HistoryBatch;
use crate::error::HistoryError;
use crate::event::{ResourceKey, RunId};
use crate::rows;
use crate::store::History;

/// Digests of the name and of the declared value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributeDigest {
    /// Digest of the name.
    pub name: u32,
    /// Digest of the value.
    pub value: u64,
}

/// KnownDeclaration of a resource in the last run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDeclaration {
    /// Name of the resource on the system.
    pub name: String,
    /// Digests of its attributes.
    pub digests: Vec<AttributeDigest>,
    /// Run that found this declaration first.
    pub run: RunId,
    /// True if the resource has been in this state since.
    pub is_settled: bool,
}

/// Bytes of an attribute in the database.
const ATTRIBUTE: usize = 12;

fn packed(digests: &[AttributeDigest]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(digests.len() * ATTRIBUTE);
    for one in digests {
        bytes.extend_from_slice(&one.name.to_le_bytes());
        bytes.extend_from_slice(&one.value.to_le_bytes());
    }
    bytes
}

fn unpacked(bytes: &[u8]) -> Vec<AttributeDigest> {
    let attribute = |part: &[u8]| {
        let (name, value) = part.split_first_chunk()?;
        Some(AttributeDigest { name: u32::from_le_bytes(*name), value: u64::from_le_bytes(*value.first_chunk()?) })
    };
    bytes.chunks_exact(ATTRIBUTE).filter_map(attribute).collect()
}

impl History {
    /// Returns the digest of the declarations of these manifests in their last run.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn catalog_digest(&self, origin: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        let found = self
            .db
            .prepare_cached("SELECT digest FROM catalog WHERE origin = ?1")
            .and_then(|mut statement| statement.query_row([origin], |row| row.get(0)).optional());
        found.map_err(|error| self.error(&error))
    }

    /// Returns the declarations of these manifests in their last run, by type and title.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn declarations(&self, origin: &str) -> Result<HashMap<(String, String), KnownDeclaration>, HistoryError> {
        let read = || {
            let mut statement = self.db.prepare_cached(
                "SELECT resource.type, resource.title, resource.name, digests, run, settled FROM declared
                 JOIN resource ON resource.id = declared.resource WHERE origin = ?1",
            )?;
            let rows = statement.query_map([origin], |row| {
                let (name, digests) = (row.get(2)?, unpacked(row.get_ref(3)?.as_blob()?));
                let declaration = KnownDeclaration { name, digests, run: RunId(row.get(4)?), is_settled: row.get(5)? };
                Ok(((row.get(0)?, row.get(1)?), declaration))
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| self.error(&error))
    }

    /// Returns true if resources of these manifests have not been in their declared state since the declaration
    /// changed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn has_unsettled(&self, origin: &str) -> Result<bool, HistoryError> {
        let mut statement = self
            .db
            .prepare_cached("SELECT 1 FROM declared WHERE origin = ?1 AND settled = 0 LIMIT 1")
            .map_err(|error| self.error(&error))?;
        statement.exists([origin]).map_err(|error| self.error(&error))
    }
}

impl HistoryBatch<'_> {
    /// Stores declarations of resources. They replace the former ones.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn declare(
        &mut self,
        origin: &str,
        run: RunId,
        declarations: &[(ResourceKey<'_>, &[AttributeDigest])],
    ) -> Result<(), HistoryError> {
        let are_first = self.add_first_resources(declarations.iter().map(|(key, _)| *key));
        let are_first = are_first.map_err(|error| self.error(&error))?;
        let mut declared = Vec::with_capacity(declarations.len());
        for (key, digests) in declarations {
            declared.push((self.resource(*key)?, packed(digests)));
        }
        let stored = match are_first {
            true => rows::insert(
                self.db,
                "declared (resource, origin, run, digests, settled)",
                &declared,
                |(resource, digests)| {
                    [(*resource).into(), origin.into(), run.0.into(), digests.as_slice().into(), 0.into()]
                },
            ),
            false => self.replace_declarations(origin, run, &declared),
        };
        stored.map_err(|error| self.error(&error))
    }

    fn replace_declarations(&self, origin: &str, run: RunId, declared: &[(i64, Vec<u8>)]) -> rusqlite::Result<()> {
        let mut replace = self.transaction.prepare_cached(
            "INSERT INTO declared (resource, origin, run, digests, settled) VALUES (?1, ?2, ?3, ?4, 0)
             ON CONFLICT (resource) DO UPDATE SET origin = ?2, run = ?3, digests = ?4, settled = 0",
        )?;
        let mut declared = declared.iter();
        declared
            .try_for_each(|(resource, digests)| replace.execute(params![resource, origin, run.0, digests]).map(drop))
    }

    /// Removes the declaration of a resource that left the manifests.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn release(&mut self, key: ResourceKey<'_>) -> Result<(), HistoryError> {
        let resource = self.resource(key)?;
        let removed = self.transaction.prepare_cached("DELETE FROM declared WHERE resource = ?1");
        let removed = removed.and_then(|mut statement| statement.execute([resource]));
        removed.map(drop).map_err(|error| self.error(&error))
    }

    /// Stores the digest of all declarations of some manifests.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn set_catalog_digest(&mut self, origin: &str, digest: &[u8]) -> Result<(), HistoryError> {
        let stored = self.transaction.prepare_cached("INSERT OR REPLACE INTO catalog (origin, digest) VALUES (?1, ?2)");
        let stored = stored.and_then(|mut statement| statement.execute(params![origin, digest]));
        stored.map(drop).map_err(|error| self.error(&error))
    }

    /// Records that all resources of these manifests are in their declared state, except some.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn settle<'k>(
        &mut self,
        origin: &str,
        except: impl IntoIterator<Item = ResourceKey<'k>>,
    ) -> Result<(), HistoryError> {
        let mut unsettled = Vec::new();
        for key in except {
            let resource = self.resource(key)?;
            if self.is_unsettled(resource).map_err(|error| self.error(&error))? {
                unsettled.push(resource);
            }
        }
        let settle = || {
            self.transaction
                // `OR FAIL` as in `rows`: an error ends the transaction.
                .prepare_cached("UPDATE OR FAIL declared SET settled = 1 WHERE origin = ?1 AND settled = 0")?
                .execute([origin])?;
            let mut unsettle =
                self.transaction.prepare_cached("UPDATE declared SET settled = 0 WHERE resource = ?1")?;
            unsettled.iter().try_for_each(|resource| unsettle.execute([resource]).map(drop))
        };
        settle().map_err(|error| self.error(&error))
    }

    /// Records that a resource is no longer in its declared state: the change that comes next is no repair of a drift.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn unsettle(&mut self, key: ResourceKey<'_>) -> Result<(), HistoryError> {
        let resource = self.resource(key)?;
        let updated = self.transaction.prepare_cached("UPDATE declared SET settled = 0 WHERE resource = ?1");
        let updated = updated.and_then(|mut statement| statement.execute([resource]));
        updated.map(drop).map_err(|error| self.error(&error))
    }

    fn is_unsettled(&self, resource: i64) -> rusqlite::Result<bool> {
        self.transaction
            .prepare_cached("SELECT 1 FROM declared WHERE resource = ?1 AND settled = 0")?
            .exists([resource])
    }
}
