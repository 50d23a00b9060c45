//! The built-in resource types.
//!
//! [`native`] returns their providers, one for each type. Each reads and changes a given system: the real system, or a
//! test system below a directory.
//!
//! The engine and its runtime decide when to call a provider, and with which arguments. [`kilter_process`] runs all
//! child processes.
//!
//! *Start from* [`native`] and a provider such as [`HostProvider`].

mod accounts;
mod alternatives;
mod apt_repository;
mod archive;
mod augeas;
mod block;
mod builtin;
mod ca_certificate;
mod container;
mod cron;
mod edit;
mod exec;
mod exported;
mod file;
mod file_part;
mod firewall;
mod group;
mod host;
mod hostname;
mod ini;
mod kernel_module;
mod known_hosts;
mod kv;
mod line;
mod line_table;
mod locale;
mod mount;
mod net;
mod noop;
mod notify;
mod nspawn;
mod package;
mod password;
mod proc_watch;
mod reboot;
mod resources;
mod selboolean;
mod service;
mod shell_settings;
mod ssh_key;
mod state_files;
mod structured;
mod sysctl;
mod systemd_timer;
mod test;
mod timer;
mod timezone;
mod tool;
mod user;
mod user_files;
mod value;
mod value_text;
mod values;
mod vcsrepo;
mod virt;
mod virtual_disk;

use std::sync::Arc;

use kilter_provider::{Provider, World};

use resources::PurgedProviders;

pub use accounts::{RealRunner, Runner, System};
pub use alternatives::AlternativesProvider;
pub use apt_repository::AptRepositoryProvider;
pub use archive::ArchiveProvider;
pub use augeas::AugeasProvider;
pub use block::BlockProvider;
pub use ca_certificate::CaCertificateProvider;
pub use container::{ContainerProvider, ImageProvider, container_providers};
pub use cron::CronProvider;
pub use exec::ExecProvider;
pub use exported::ExportedProvider;
pub use file::FileProvider;
pub use file::temporary_record::{CleanedFiles, KeptRecord, clean_temporary_files, keep_temporary_record};
pub use file::tidy::TidyProvider;
pub use file_part::FilePartProvider;
pub use firewall::{FirewallProvider, FirewallRuleProvider};
pub use group::GroupProvider;
pub use host::HostProvider;
pub use hostname::HostnameProvider;
pub use ini::IniProvider;
pub use kernel_module::KernelModuleProvider;
pub use known_hosts::KnownHostsProvider;
pub use kv::KvProvider;
pub use line::LineProvider;
pub use locale::LocaleProvider;
pub use mount::MountProvider;
pub use net::NetProvider;
pub use noop::NoopProvider;
pub use notify::NotifyProvider;
pub use nspawn::NspawnProvider;
pub use package::PackageProvider;
pub use package::managers::{ManagedPackageProvider, package_managers};
pub use password::PasswordProvider;
pub use reboot::RebootProvider;
pub use resources::ResourcesProvider;
pub use selboolean::SelbooleanProvider;
pub use service::{OfflineServiceProvider, ServiceProvider};
pub use ssh_key::SshAuthorizedKeyProvider;
pub use structured::StructuredProvider;
pub use sysctl::SysctlProvider;
pub use systemd_timer::SystemdTimerProvider;
pub use test::TestProvider;
pub use timer::TimerProvider;
pub use timezone::TimezoneProvider;
pub use user::UserProvider;
pub use value::ValueProvider;
pub use vcsrepo::{VcsrepoProvider, is_git_reference};
pub use virt::VirtProvider;
pub use virtual_disk::VirtualDiskProvider;

/// Returns the providers of all built-in types on this machine, which shares `world` with others.
pub fn native(world: Arc<dyn World>) -> Vec<Arc<dyn Provider>> {
    let accounts = Arc::new(accounts::Accounts::new(System::real()));
    let (turn, packages) = (edit::Turn::default(), Arc::default());
    let trust = kilter_process::trust::TrustPolicy::current();
    let purged = PurgedProviders {
        cron: Arc::new(CronProvider::sharing(System::real(), accounts.clone())),
        group: Arc::new(GroupProvider::sharing(accounts.clone())),
        host: Arc::new(HostProvider::default()),
        package: Arc::new(PackageProvider::sharing(System::real(), trust.clone(), Arc::clone(&packages))),
        service: Arc::new(ServiceProvider::new()),
        ssh_authorized_key: Arc::new(SshAuthorizedKeyProvider::sharing(accounts.clone())),
        user: Arc::new(UserProvider::sharing(accounts.clone())),
    };
    let managers: Vec<_> = package_managers(&System::real(), &trust).map(|one| Arc::new(one) as _).collect();
    let PurgedProviders { cron, group, host, package, service, ssh_authorized_key, user } = purged.clone();
    let [container, docker_container, image, docker_image] = container_providers(&System::real());
    let mut all: Vec<Arc<dyn Provider>> = vec![
        Arc::new(AlternativesProvider::new(System::real())),
        Arc::new(AptRepositoryProvider::sharing(System::real(), trust.clone(), packages)),
        Arc::new(ArchiveProvider::sharing(accounts.clone())),
        Arc::new(AugeasProvider::new(System::real())),
        Arc::new(BlockProvider::sharing(Arc::clone(&turn))),
        Arc::new(CaCertificateProvider::new(System::real())),
        container,
        docker_container,
        cron,
        Arc::new(ExecProvider::sharing(accounts.clone())),
        Arc::new(ExportedProvider::new(Arc::clone(&world))),
        Arc::new(FileProvider::sharing(accounts.clone())),
        Arc::new(FilePartProvider),
        Arc::new(FirewallProvider::new(System::real())),
        Arc::new(FirewallRuleProvider),
        group,
        host,
        Arc::new(HostnameProvider::default()),
        image,
        docker_image,
        Arc::new(IniProvider::sharing(Arc::clone(&turn))),
        Arc::new(KernelModuleProvider::new(System::real())),
        Arc::new(KnownHostsProvider::default()),
        Arc::new(KvProvider::new(world)),
        Arc::new(LineProvider::sharing(Arc::clone(&turn))),
        Arc::new(LocaleProvider::new(System::real())),
        Arc::new(MountProvider::new(System::real())),
        Arc::new(NetProvider::default()),
        Arc::new(NoopProvider),
        Arc::new(NotifyProvider::new()),
        Arc::new(NspawnProvider::new()),
        package,
        Arc::new(PasswordProvider),
        Arc::new(RebootProvider::new(System::real())),
        Arc::new(ResourcesProvider::sharing(System::real(), accounts.clone(), purged)),
        Arc::new(SelbooleanProvider::new(System::real())),
        service,
        Arc::new(OfflineServiceProvider::new()),
        ssh_authorized_key,
        Arc::new(StructuredProvider::sharing(turn)),
        Arc::new(SysctlProvider::default()),
        Arc::new(SystemdTimerProvider::default()),
        Arc::new(TestProvider),
        Arc::new(TidyProvider::sharing(accounts.clone())),
        Arc::new(TimerProvider::new()),
        Arc::new(TimezoneProvider::default()),
        user,
        Arc::new(ValueProvider),
        Arc::new(VcsrepoProvider::sharing(accounts, System::real())),
        Arc::new(VirtProvider::new(System::real())),
        Arc::new(VirtualDiskProvider::new(System::real())),
    ];
    // apt comes first on a machine that has several package managers.
    all.extend(managers);
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use kilter_model::{DataType, definition};
    use kilter_provider::WorldError;

    use super::*;

    /// An empty world.
    pub(crate) struct Nowhere;

    impl World for Nowhere {
        fn host(&self) -> &str {
            "here"
        }

        fn id(&self) -> String {
            "nowhere".into()
        }

        fn is_shared(&self) -> bool {
            false
        }

        fn read(&self, _: &[&str]) -> Result<Option<String>, WorldError> {
            Ok(None)
        }

        fn below(&self, _: &[&str]) -> Result<Vec<kilter_provider::Shared>, WorldError> {
            Ok(Vec::new())
        }

        fn write(&self, _: &[&str], _: &str) -> Result<(), WorldError> {
            Err(WorldError("there is no room".into()))
        }

        fn replace(&self, _: &[&str], _: Option<&str>, _: &str) -> Result<bool, WorldError> {
            Ok(false)
        }

        fn remove(&self, _: &[&str]) -> Result<(), WorldError> {
            Ok(())
        }

        fn watched(&self, _: &[&str]) -> std::path::PathBuf {
            "/nowhere".into()
        }
    }

    fn native() -> Vec<Arc<dyn Provider>> {
        super::native(Arc::new(Nowhere))
    }

    #[test]
    fn schemas_are_valid() {
        for provider in native() {
            assert_eq!(definition::check(provider.schema()), [], "{}", provider.schema().name);
        }
    }

    #[test]
    fn every_provider_knows_the_name_of_its_type() {
        for provider in native() {
            assert_eq!(provider.type_name(), provider.schema().name.as_str());
        }
    }

    #[test]
    fn every_data_type_of_the_schemas_holds_with_its_patterns() {
        for provider in native() {
            for attribute in &provider.schema().attributes {
                let text = attribute.data_type.to_string();
                assert_eq!(text.parse::<DataType>().as_ref(), Ok(&attribute.data_type), "{}", attribute.name);
            }
        }
    }
}

/// The example of the guide must compile. The test `guide` checks its results.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/native-provider.md")]
struct Guide;
