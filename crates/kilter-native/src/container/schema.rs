//! Schema and validation of the type `container`.

use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

use super::settings::{port_problem, volume_problem};

/// Name of a container.
pub(super) const NAME: &str = r"Pattern[/\A[a-zA-Z0-9][a-zA-Z0-9_.-]*\z/]";

const DESC: &str = "\
Containers of podman or docker.

```yaml
resources:
  image[docker.io/library/nginx:1.27]: {}
  container[web]:
    image: docker.io/library/nginx:1.27
    ports: [\"8080:80\"]
    volumes: [\"/srv/www:/usr/share/nginx/html:ro\"]
    environment: { TZ: Europe/Berlin }
    restart: always
  container[old-web]:
    ensure: absent
```

kilter uses podman if the machine has it, otherwise docker. If the machine has neither, the declared package decides. \
To choose one of them, declare `provider: docker`. As root, kilter manages the containers of root, as another user \
those of that user.

**Recreation.** The settings of a container cannot change. If an attribute other than `ensure` differs, kilter creates \
a new container, stops and removes the old one, and starts the new one. The plan shows this at each attribute. If the \
new container cannot be created, for example because its image cannot be fetched, the old one keeps running. Data that \
the container has written outside of its volumes is lost. Attributes that are not declared keep their values; an empty \
value (`[]`, `{}`) removes them. Settings without an attribute are kept only as `options`, so a container that another \
program has created loses them.

The container is also recreated if its image now names another image on this machine, for example after a refresh of \
the [image](image.md). kilter asks no registry for newer images.

A value in `environment` can be a secret: kilter passes it to the program in a variable and not as an argument. Every \
user who can run `podman inspect` for the container can read it.

The removal of a container keeps its volumes.

A container that ends directly after its start is a failure. The message has the last lines that the container wrote. \
If the process of a container has failed, the plan to start it again shows the status and the last line.

**After a boot**, docker starts containers by their `restart` policy; podman does so if the unit \
`podman-restart.service` is enabled, and only with `always`.

A refresh restarts a running container.

**Automatic edges.** A container runs after its `image`, after the package of podman or docker, and after the files \
and mounts that it uses as volumes. An absent image runs after all declared containers.

**Tests.** The tests run docker 20.10 and podman 4.3 of Debian 12; podman with the networks `none` and `host` only, \
and without control groups.";

pub(super) fn schema() -> TypeSchema {
    let property = Behaviour::Property;
    TypeSchema::new("container", DESC)
        .attribute(
            "ensure",
            "Enum[running, stopped, absent]",
            property,
            "State: `running`, `stopped`, `absent`. A paused container is not running.",
        )
        .default("running")
        .attribute("name", NAME, Behaviour::Namevar, "Name of the container: `web`.")
        .attribute(
            "image",
            "String[1]",
            property,
            "Image: `docker.io/library/nginx:1.27`. Required for a new container. The program fetches it if it is not \
             on this machine.",
        )
        .attribute(
            "command",
            "Array[String]",
            property,
            "Command and arguments: `[sleep, \"1000\"]`. The default is the command of the image.",
        )
        .attribute(
            "environment",
            "Variant[Hash[String[1], Variant[String, Integer]], Array[String[1]]]",
            property,
            "Environment variables in addition to those of the image: `{TZ: Europe/Berlin}`, or as a list: \
             `[\"TZ=Europe/Berlin\"]`.",
        )
        .attribute(
            "ports",
            "Array[String[1]]",
            property,
            "Published ports, `[ADDRESS:]PORT:CONTAINER_PORT[/udp]`: `[\"8080:80\", \"127.0.0.1:5353:53/udp\"]`.",
        )
        .attribute(
            "volumes",
            "Array[String[1]]",
            property,
            "Paths and named volumes in the container, `SOURCE:PATH[:OPTIONS]`: `[\"/srv/www:/www:ro\", \
             \"data:/var/lib/data\"]`.",
        )
        .attribute(
            "restart",
            r"Pattern[/\A(no|always|unless-stopped|on-failure(:[1-9][0-9]*)?)\z/]",
            property,
            "Restart policy: `no`, `always`, `unless-stopped`, `on-failure`, `on-failure:5`.",
        )
        .attribute("labels", "Hash[String[1], String]", property, "Labels in addition to those of the image.")
        .attribute(
            "network",
            "String[1]",
            property,
            "Network: `bridge`, `host`, `none`, the name of a network, or `container:NAME`.",
        )
        .attribute(
            "options",
            "Array[String[1]]",
            property,
            "Further arguments of `podman create`, each as one text: `[--cap-add=NET_ADMIN, --user=1000]`. kilter \
             records them in the label `kilter.options`.",
        )
        .attribute("image_id", "String[1]", Behaviour::ReadOnly, "Identifier of the image of the container.")
        .attribute(
            "ended",
            "String[1]",
            Behaviour::ReadOnly,
            "End of the process of a container that is declared `running` and has failed: `status 3: no such file`.",
        )
        .attribute(
            "declared_image_id",
            "String[1]",
            Behaviour::ReadOnly,
            "Identifier of the image that the declared name now names on this machine.",
        )
        .features(&[
            Feature::Canonicalize,
            Feature::CustomInsync,
            Feature::Refresh,
            Feature::SimpleGetFilter,
            Feature::SupportsNoop,
        ])
}

/// Returns true if a text cannot be taken for an option or for several words.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Options that other attributes set, or that change the meaning of the call.
const OTHER: [&str; 16] = [
    "name",
    "env",
    "publish",
    "volume",
    "label",
    "restart",
    "network",
    "net",
    "detach",
    "rm",
    "replace",
    "pull",
    "env-file",
    "label-file",
    "cidfile",
    "help",
];

pub(super) fn problems(should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    for attribute in ["image", "command", "ports", "volumes", "labels", "network", "options"] {
        if should.get(attribute).is_some_and(Value::holds_sensitive) {
            let problem = ValidationError::with(attribute, "only `environment` can hold a secret of a container");
            found.push(problem.hint("use a value that is not secret"));
        }
    }
    for (attribute, example) in [("image", "docker.io/library/nginx:1.27"), ("network", "bridge")] {
        if let Some(text) = should.text(attribute).filter(|text| !is_word(text)) {
            let problem = ValidationError::with(attribute, format!("`{text}` is not the name of a {attribute}"));
            found.push(problem.hint(format!("write a name without white space: {example}")));
        }
    }
    let texts = |attribute| crate::value_text::texts(should.get(attribute));
    found.extend(texts("ports").iter().filter_map(|port| port_problem(port)));
    found.extend(texts("volumes").iter().filter_map(|volume| volume_problem(volume)));
    for option in texts("options") {
        let name = option.strip_prefix("--").map(|rest| rest.split_once('=').map_or(rest, |(name, _)| name));
        let problem = match name {
            None | Some("") => {
                ValidationError::with("options", format!("`{option}` is not an option such as `--cap-add=NET_ADMIN`"))
                    .hint("write the option and its value as one text with `=`")
            }
            Some(name) if OTHER.contains(&name) => {
                ValidationError::with("options", format!("kilter sets `--{name}` itself"))
                    .hint("use the attribute of this setting")
            }
            Some(_) => continue,
        };
        found.push(problem);
    }
    if let Some(variables) = should.get("environment") {
        let variables = variables.unwrap_sensitive();
        let names = variables.as_hash().into_iter().flat_map(|entries| entries.keys().map(|name| name.as_str()));
        let is_bad =
            |name: &str| name.is_empty() || name.contains(|c: char| c == '=' || c.is_control() || c.is_whitespace());
        found.extend(names.filter(|name| is_bad(name)).map(|name| {
            ValidationError::with("environment", format!("`{name}` is not the name of a variable"))
                .hint("write NAME: VALUE")
        }));
        let list = variables.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
        found.extend(list.filter(|one| one.split_once('=').is_none_or(|(name, _)| name.is_empty())).map(|_| {
            ValidationError::with("environment", "a list has variables with their values").hint("write NAME=VALUE")
        }));
    }
    found
}
