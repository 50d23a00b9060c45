//! Settings of a container: as declared, as podman and docker describe them, and as arguments of their `create`.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Hash, State, Value};
use kilter_provider::{Insync, ValidationError};
use serde_json::Value as Json;

use super::engine::ContainerProgram;
use crate::value_text::texts;

/// Attributes that only a new container can have in another way.
pub(super) const FIXED: [&str; 9] =
    ["image", "command", "environment", "ports", "volumes", "restart", "labels", "network", "options"];

/// Label with the `options` of a container.
const OPTIONS_LABEL: &str = "kilter.options";

/// Variables that podman or docker adds.
const ADDED: [&str; 5] = ["PATH", "TERM", "HOME", "HOSTNAME", "container"];

/// Options of a volume that are the default, or that the programs do not report.
const DEFAULT_OPTIONS: [&str; 8] = ["rw", "rprivate", "rbind", "nosuid", "nodev", "z", "Z", "U"];

/// Maximum number of ports in a range.
const MAX_PORTS: u16 = 1000;

fn text<'j>(json: &'j Json, path: &str) -> &'j str {
    json.pointer(path).and_then(Json::as_str).unwrap_or_default()
}

fn list<'j>(json: &'j Json, path: &str) -> &'j [Json] {
    json.pointer(path).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn strings(json: &Json, path: &str) -> Vec<EcoString> {
    list(json, path).iter().filter_map(Json::as_str).map(EcoString::from).collect()
}

/// Returns the identifier of an object without the name of the digest.
pub(super) fn id_of(json: &Json, path: &str) -> EcoString {
    let id = text(json, path);
    id.strip_prefix("sha256:").unwrap_or(id).into()
}

/// Returns the name of a container. docker writes it as a path.
pub(super) fn name_of(container: &Json) -> &str {
    text(container, "/Name").trim_start_matches('/')
}

/// Returns the identifier of the container whose network a container shares.
pub(super) fn network_owner(container: &Json) -> Option<&str> {
    text(container, "/HostConfig/NetworkMode").strip_prefix("container:")
}

/// Returns the exit code of a container whose process has failed.
pub(super) fn failure_code(container: &Json) -> Option<i64> {
    let code = container.pointer("/State/ExitCode").and_then(Json::as_i64).filter(|code| *code != 0)?;
    matches!(text(container, "/State/Status"), "exited" | "stopped").then_some(code)
}

/// Returns the state of a container. `image` is the image that it was made from, if it still exists. `owners` are the
/// containers whose networks others share.
pub(super) fn state(
    name: &EcoString,
    container: &Json,
    image: Option<&Json>,
    declared_image: Option<&Json>,
    owners: &[Json],
    should: Option<&Attributes>,
) -> State {
    let mut attributes = Attributes::with_capacity(13);
    attributes.push("ensure", if text(container, "/State/Status") == "running" { "running" } else { "stopped" });
    attributes.push("name", name.clone());
    let named = [text(container, "/ImageName"), text(container, "/Config/Image")];
    attributes.push("image", named.into_iter().find(|name| !name.is_empty()).unwrap_or_default());
    let command = strings(container, "/Config/Cmd");
    let is_default = image.is_some_and(|image| strings(image, "/Config/Cmd") == command);
    attributes.push("command", Value::strings(if is_default { Vec::new() } else { command }));
    attributes.push("environment", environment(container, image, should.and_then(|should| should.get("environment"))));
    attributes.push("ports", Value::strings(ports(container)));
    attributes.push("volumes", Value::strings(volumes(container)));
    attributes.push("restart", restart(container));
    let (labels, options) = labels(container, image);
    attributes.push("labels", labels);
    attributes.push("network", network(container, owners));
    attributes.push("options", options);
    attributes.push("image_id", id_of(container, "/Image"));
    if let Some(declared) = declared_image {
        attributes.push("declared_image_id", id_of(declared, "/Id"));
    }
    State::present(name.clone(), attributes)
}

/// Returns the variables that neither the image nor the program has set, and the declared ones. A value that is
/// declared as a secret is one.
fn environment(container: &Json, image: Option<&Json>, declared: Option<&Value>) -> Value {
    let of_image = image.map(|image| strings(image, "/Config/Env")).unwrap_or_default();
    let is_secret = declared.is_some_and(|declared| matches!(declared, Value::Sensitive(_)));
    let declared = declared.and_then(|declared| declared.unwrap_sensitive().as_hash());
    let mut found = Hash::default();
    for variable in strings(container, "/Config/Env") {
        let (name, value) = variable.split_once('=').unwrap_or((&variable, ""));
        let wanted = declared.and_then(|declared| declared.get(name));
        if wanted.is_none() && (ADDED.contains(&name) || of_image.contains(&variable)) {
            continue;
        }
        let value = Value::from(value);
        let is_secret = wanted.is_some_and(Value::holds_sensitive);
        found.insert(name.into(), if is_secret { Value::sensitive(value) } else { value });
    }
    found.sort_unstable_keys();
    if is_secret { Value::sensitive(Value::Hash(found.into())) } else { Value::Hash(found.into()) }
}

fn ports(container: &Json) -> Vec<EcoString> {
    let bindings = container.pointer("/HostConfig/PortBindings").and_then(Json::as_object);
    let mut found = Vec::new();
    for (inner, outer) in bindings.into_iter().flatten() {
        for one in outer.as_array().map(Vec::as_slice).unwrap_or_default() {
            found.push(port(text(one, "/HostIp"), text(one, "/HostPort"), inner));
        }
    }
    found.sort_unstable();
    found
}

/// Returns the canonical text of a port.
fn port(address: &str, outer: &str, inner: &str) -> EcoString {
    let inner = inner.strip_suffix("/tcp").unwrap_or(inner);
    match address.trim_matches(['[', ']']) {
        "" | "0.0.0.0" => eco_format!("{outer}:{inner}"),
        address if address.contains(':') => eco_format!("[{address}]:{outer}:{inner}"),
        address => eco_format!("{address}:{outer}:{inner}"),
    }
}

/// Returns the canonical texts of a declared port or range of ports. None if it is invalid.
fn canonical_ports(declared: &str) -> Option<Vec<EcoString>> {
    let (rest, inner) = declared.rsplit_once(':')?;
    let (address, outer) = match rest.rsplit_once(':') {
        Some((address, outer)) => (address, outer),
        None => ("", rest),
    };
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    if !address.is_empty() && bare.parse::<std::net::IpAddr>().is_err() {
        return None;
    }
    let (inner, protocol) = inner.split_once('/').unwrap_or((inner, "tcp"));
    if !matches!(protocol, "tcp" | "udp" | "sctp") {
        return None;
    }
    let range = |text: &str| -> Option<(u16, u16)> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = (number(first)?, number(last)?);
        (first <= last && last - first < MAX_PORTS).then_some((first, last))
    };
    let ((outer, outer_last), (inner, inner_last)) = (range(outer)?, range(inner)?);
    if outer_last - outer != inner_last - inner {
        return None;
    }
    let one = |at: u16| port(bare, &(outer + at).to_string(), &eco_format!("{}/{protocol}", inner + at));
    Some((0..=outer_last - outer).map(one).collect())
}

pub(super) fn port_problem(declared: &str) -> Option<ValidationError> {
    let problem = || {
        ValidationError::with("ports", format!("`{declared}` is not a published port"))
            .hint("write PORT:CONTAINER_PORT, such as 8080:80, 127.0.0.1:8080:80 or 5353:53/udp")
    };
    canonical_ports(declared).is_none().then(problem)
}

fn volumes(container: &Json) -> Vec<EcoString> {
    let mut found: Vec<EcoString> =
        strings(container, "/HostConfig/Binds").iter().filter_map(|bind| canonical_volume(bind)).collect();
    found.retain(|volume| !volume.split_once(':').is_some_and(|(source, _)| is_anonymous(source)));
    found.sort_unstable();
    found
}

/// Returns true for the name of a volume that the program has made for the image.
fn is_anonymous(source: &str) -> bool {
    source.len() == 64 && source.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the source of a declared volume if it is a path of this machine, and true if the container may write it.
pub(super) fn bind(volume: &str) -> Option<(&str, bool)> {
    let mut parts = volume.splitn(3, ':');
    let source = parts.next().filter(|source| source.starts_with('/'))?;
    let options = parts.nth(1).unwrap_or_default();
    Some((source, !options.split(',').any(|option| option == "ro")))
}

/// Returns the canonical text of a volume, without default options. None if it is invalid.
fn canonical_volume(volume: &str) -> Option<EcoString> {
    let mut parts = volume.splitn(3, ':');
    let (source, path, options) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let trimmed = |path: &'_ str| match path.trim_end_matches('/') {
        "" => EcoString::from("/"),
        path => path.into(),
    };
    let is_name = |name: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) && name.bytes().all(is_inner)
    };
    let source = if source.starts_with('/') { trimmed(source) } else { source.into() };
    let is_path = |path: &str| path == "/" || crate::file::atomic_rewrite::is_normal(path);
    if !(is_name(&source) || is_path(&source)) || path == "/" || !is_path(&trimmed(path)) {
        return None;
    }
    if options.contains(|c: char| c.is_whitespace() || c == ':') {
        return None;
    }
    let mut options: Vec<&str> =
        options.split(',').filter(|option| !option.is_empty() && !DEFAULT_OPTIONS.contains(option)).collect();
    options.sort_unstable();
    let colon = if options.is_empty() { "" } else { ":" };
    Some(eco_format!("{source}:{}{colon}{}", trimmed(path), options.join(",")))
}

pub(super) fn volume_problem(declared: &str) -> Option<ValidationError> {
    let problem = || {
        ValidationError::with("volumes", format!("`{declared}` is not a volume"))
            .hint("write SOURCE:PATH or SOURCE:PATH:ro with absolute paths, or the name of a volume as the source")
    };
    canonical_volume(declared).is_none().then(problem)
}

fn restart(container: &Json) -> EcoString {
    let count = container.pointer("/HostConfig/RestartPolicy/MaximumRetryCount").and_then(Json::as_i64);
    match (text(container, "/HostConfig/RestartPolicy/Name"), count) {
        ("", _) => "no".into(),
        ("on-failure", Some(count)) if count > 0 => eco_format!("on-failure:{count}"),
        (name, _) => name.into(),
    }
}

/// Returns the labels that the image does not have, and the recorded options.
fn labels(container: &Json, image: Option<&Json>) -> (Value, Value) {
    let of_image = |name: &str, value: &Json| {
        image.and_then(|image| image.pointer("/Config/Labels")?.get(name)).is_some_and(|label| label == value)
    };
    let mut options = Value::strings(Vec::<EcoString>::new());
    let mut found = Hash::default();
    let labels = container.pointer("/Config/Labels").and_then(Json::as_object);
    for (name, value) in labels.into_iter().flatten() {
        let value_text = value.as_str().unwrap_or_default();
        if name == OPTIONS_LABEL {
            options = serde_json::from_str::<Vec<String>>(value_text).map_or(options, Value::strings);
        } else if !of_image(name, value) {
            found.insert(name.as_str().into(), Value::from(value_text));
        }
    }
    found.sort_unstable_keys();
    (Value::Hash(found.into()), options)
}

/// Returns the network of a container. `bridge` is the default network.
fn network(container: &Json, owners: &[Json]) -> EcoString {
    // An owner that was created again is another container than the one whose network is shared.
    if let Some(id) = network_owner(container)
        && let Some(owner) = owners.iter().find(|owner| text(owner, "/Id") == id)
    {
        return eco_format!("container:{}", name_of(owner));
    }
    match text(container, "/HostConfig/NetworkMode") {
        "" | "default" | "bridge" => {
            let networks = container.pointer("/NetworkSettings/Networks").and_then(Json::as_object);
            let names: Vec<&str> =
                networks.into_iter().flat_map(|networks| networks.keys().map(String::as_str)).collect();
            match names.as_slice() {
                [] | ["podman" | "bridge"] => "bridge".into(),
                names => names.join(",").into(),
            }
        }
        mode => mode.into(),
    }
}

/// Brings declared values to the form of [`state`].
pub(super) fn canonicalize(should: &mut Attributes) {
    for (attribute, canonical) in [
        ("ports", canonical_ports as fn(&str) -> Option<Vec<EcoString>>),
        ("volumes", |volume| Some(vec![canonical_volume(volume)?])),
    ] {
        let Some(declared) = should.get(attribute).map(|declared| texts(Some(declared))) else { continue };
        let mut all: Vec<EcoString> = declared.iter().filter_map(|one| canonical(one)).flatten().collect();
        all.sort_unstable();
        all.dedup();
        should.set(attribute, Value::strings(all));
    }
    if let Some(declared) = should.get("environment") {
        let mut entries = Hash::default();
        let is_secret = matches!(declared, Value::Sensitive(_));
        match declared.unwrap_sensitive() {
            Value::Hash(declared) => {
                for (name, value) in declared.iter() {
                    let text = Value::from(value.unwrap_sensitive().to_text().unwrap_or_default());
                    entries.insert(name.clone(), crate::value_text::sealed_like(value, text));
                }
            }
            // The check of the values reports a variable without a value.
            list if texts(Some(list)).iter().any(|variable| !variable.contains('=')) => return,
            list => {
                for value in list.as_array().unwrap_or_default() {
                    let text = value.as_str().unwrap_or_default();
                    let (name, text) = text.split_once('=').unwrap_or((text, ""));
                    entries.insert(name.into(), crate::value_text::sealed_like(value, Value::from(text)));
                }
            }
        }
        entries.sort_unstable_keys();
        let entries = Value::Hash(entries.into());
        should.set("environment", if is_secret { Value::sensitive(entries) } else { entries });
    }
    if let Some(labels) = should.get("labels").and_then(Value::as_hash) {
        let mut labels = labels.clone();
        labels.sort_unstable_keys();
        should.set("labels", Value::Hash(labels.into()));
    }
}

/// Returns true if a container has the declared image: the image that the name now means on this machine, or an image
/// that no longer is on this machine and that had the name.
fn is_same_image(is: &Attributes, declared: &str) -> bool {
    match (is.text("image_id"), is.text("declared_image_id")) {
        (Some(is), Some(declared)) => is == declared,
        _ => {
            let found = is.text("image").unwrap_or_default();
            [found.to_owned(), format!("{found}:latest")].iter().any(|found| {
                let declared = declared.strip_suffix(":latest").unwrap_or(declared);
                let found = found.strip_suffix(":latest").unwrap_or(found);
                found == declared || found.strip_suffix(declared).is_some_and(|rest| rest.ends_with('/'))
            })
        }
    }
}

/// Returns the names of the attributes that differ and cannot change.
pub(super) fn differing(is: &State, should: &Attributes) -> Vec<&'static str> {
    let differs = |attribute: &&str| match (*attribute, is.attributes.get(attribute), should.get(attribute)) {
        (_, _, None) => false,
        ("image", _, Some(declared)) => !is_same_image(&is.attributes, declared.as_str().unwrap_or_default()),
        (_, Some(is), Some(should)) => !is.expose().is_same(&should.expose()),
        (_, None, Some(_)) => true,
    };
    FIXED.into_iter().filter(|attribute| is.exists && differs(attribute)).collect()
}

/// Compares an attribute, and says that its change needs another container.
pub(super) fn insync(attribute: &str, is: &State, should: &Attributes) -> Insync {
    let differing = differing(is, should);
    let (found, wanted) = (is.attributes.get(attribute), should.get(attribute));
    if attribute == "ensure" {
        let recreation = match differing.is_empty() {
            true => EcoString::new(),
            false => eco_format!(", recreates the container for: {}", differing.join(", ")),
        };
        let ended = is.attributes.text("ended").filter(|_| wanted.and_then(Value::as_str) == Some("running"));
        let ended = ended.map(|ended| eco_format!("; its process has ended with {ended}")).unwrap_or_default();
        return match (found.and_then(Value::as_str), wanted.and_then(Value::as_str)) {
            (Some(found), Some(wanted))
                if is.exists
                    && found != wanted
                    && wanted != "absent"
                    && !(recreation.is_empty() && ended.is_empty()) =>
            {
                Insync::Differs(Some(eco_format!("{found} → {wanted}{recreation}{ended}")))
            }
            _ => Insync::Default,
        };
    }
    if !is.exists || !FIXED.contains(&attribute) {
        return Insync::Default;
    }
    if !differing.contains(&attribute) {
        return Insync::Same;
    }
    let change = match (found, wanted) {
        (Some(found), Some(wanted)) if found.unwrap_sensitive().as_hash().is_some() => changed_keys(found, wanted),
        (Some(found), Some(wanted)) if attribute == "image" && found.is_same(wanted) => {
            let short = |attribute| is.attributes.text(attribute).map_or("", |id| id.get(..12).unwrap_or(id));
            format!("{} → {} ({wanted})", short("image_id"), short("declared_image_id"))
        }
        (Some(found), Some(wanted)) => format!("{found} → {wanted}"),
        (_, wanted) => wanted.map(ToString::to_string).unwrap_or_default(),
    };
    Insync::Differs(Some(eco_format!("{change}, recreates the container")))
}

/// Describes a change of entries without their values, which may be secrets of a container that another program made.
fn changed_keys(found: &Value, wanted: &Value) -> String {
    let (found, wanted) = (found.expose(), wanted.expose());
    let none = Hash::default();
    let (found, wanted) = (found.as_hash().unwrap_or(&none), wanted.as_hash().unwrap_or(&none));
    let added = wanted.iter().filter(|(name, _)| !found.contains_key(*name)).map(|(name, _)| format!("+{name}"));
    let changed = wanted.iter().filter(|(name, value)| found.get(*name).is_some_and(|found| !found.is_same(value)));
    let removed = found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("-{name}"));
    let all: Vec<String> = changed.map(|(name, _)| format!("~{name}")).chain(added).chain(removed).collect();
    all.join(" ")
}

/// Arguments of `create`, and variables that the program gets instead of arguments.
pub(super) struct CreateCall {
    pub(super) words: Vec<EcoString>,
    pub(super) secrets: Vec<(EcoString, EcoString)>,
}

/// Returns the arguments that create a container. Undeclared attributes keep their values.
///
/// # Errors
/// If there is no image.
pub(super) fn creation(
    program: ContainerProgram,
    container: &str,
    is: &State,
    should: &Attributes,
) -> Result<CreateCall, EcoString> {
    let value = |attribute: &str| should.get(attribute).or_else(|| is.attributes.get(attribute));
    let image = value("image").and_then(Value::as_str).filter(|image| !image.is_empty());
    let image = image.ok_or("a new container needs an `image`")?;
    let mut words: Vec<EcoString> = vec!["create".into(), eco_format!("--name={container}")];
    let mut secrets = Vec::new();
    let variables = value("environment");
    let is_secret = |value: &Value| value.holds_sensitive() || matches!(variables, Some(Value::Sensitive(_)));
    let entries = variables.and_then(|variables| variables.unwrap_sensitive().as_hash());
    for (name, value) in entries.into_iter().flatten() {
        let text = value.unwrap_sensitive().to_text().unwrap_or_default();
        match is_secret(value) {
            true => {
                words.push(eco_format!("--env={name}"));
                secrets.push((name.clone(), text));
            }
            false => words.push(eco_format!("--env={name}={text}")),
        }
    }
    for (attribute, option) in
        [("ports", "publish"), ("volumes", "volume"), ("restart", "restart"), ("network", "network")]
    {
        words.extend(texts(value(attribute)).iter().map(|text| eco_format!("--{option}={text}")));
    }
    let labels = value("labels").and_then(Value::as_hash);
    for (name, label) in labels.into_iter().flatten() {
        words.push(eco_format!("--label={name}={}", label.as_str().unwrap_or_default()));
    }
    let options = texts(value("options"));
    if !options.is_empty() {
        let recorded = Json::from(options.iter().map(EcoString::as_str).collect::<Vec<_>>());
        words.push(eco_format!("--label={OPTIONS_LABEL}={recorded}"));
        words.extend(options);
    }
    if program == ContainerProgram::Podman && texts(value("network")) == ["bridge"] {
        // podman's name of the default network of an ordinary user is another one.
        words.retain(|word| word != "--network=bridge");
    }
    words.push(image.into());
    words.extend(texts(value("command")));
    Ok(CreateCall { words, secrets })
}

#[cfg(test)]
mod tests;
