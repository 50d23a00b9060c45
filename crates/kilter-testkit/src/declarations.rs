//! Splits manifests into single resources, to declare them in any order and in any file.
//!
//! It reads the layout of `kilter fmt` and of the repository's examples, not all of YAML: two spaces for each level,
//! keys without line breaks, and `for_each` over a variable. It panics if a text has another form.

/// A resource with its attributes.
struct DeclaredResource {
    /// Type and title: `file[/etc/motd]`.
    reference: String,
    /// Attributes: name, value in the line of the name, and the lines below it.
    attributes: Vec<DeclaredEntry>,
}

/// Entry of a mapping.
#[derive(Clone)]
struct DeclaredEntry {
    key: String,
    /// Value in the line of the key; empty if it is below.
    value: String,
    /// Lines of the value below the key, with their indentation.
    below: Vec<String>,
}

/// All declarations of some manifests.
pub struct Declarations {
    /// Entries of `vars` as text.
    vars: Vec<String>,
    resources: Vec<DeclaredResource>,
}

impl Declarations {
    /// Reads manifests. Each element of `for_each` and `titles` becomes a resource of its own, and has the defaults of
    /// its file.
    ///
    /// # Panics
    /// If a text does not have the layout of the examples.
    #[must_use]
    pub fn new(texts: &[String]) -> Declarations {
        let files: Vec<Vec<DeclaredEntry>> = texts.iter().map(|text| entries(text.lines(), 0)).collect();
        let section = |file: &[DeclaredEntry], name: &str| {
            let section = file.iter().find(|section| section.key == name);
            section.map(DeclaredEntry::entries).unwrap_or_default()
        };
        let vars: Vec<DeclaredEntry> = files.iter().flat_map(|file| section(file, "vars")).collect();
        let mut resources = Vec::new();
        for file in &files {
            let defaults = section(file, "defaults");
            for declared in section(file, "resources").iter().flat_map(singles).flat_map(|one| each(one, &vars)) {
                resources.push(declared.with(&defaults));
            }
        }
        Declarations { vars: vars.iter().map(|entry| entry.text(2)).collect(), resources }
    }

    /// Returns the number of resources.
    #[must_use]
    pub fn count(&self) -> usize {
        self.resources.len()
    }

    /// Returns type and title of each resource.
    #[must_use]
    pub fn references(&self) -> Vec<&str> {
        self.resources.iter().map(|resource| resource.reference.as_str()).collect()
    }

    /// Returns the names of the packages that are declared as installed.
    #[must_use]
    pub fn packages(&self) -> Vec<&str> {
        let is_absent = |resource: &&DeclaredResource| {
            resource.attributes.iter().any(|attribute| attribute.key == "ensure" && attribute.value == "absent")
        };
        let present = self.resources.iter().filter(|resource| !is_absent(resource));
        present.filter_map(|resource| resource.reference.strip_prefix("package[")?.strip_suffix(']')).collect()
    }

    /// Returns one manifest with all declarations in their order.
    #[must_use]
    pub fn manifest(&self) -> String {
        document(&self.vars.iter().collect::<Vec<_>>(), &self.resources.iter().collect::<Vec<_>>())
    }

    /// Returns that number of manifests, with the declarations in a random order. Each declaration is in one of them.
    pub fn shuffled(&self, files: usize, random: &mut fastrand::Rng) -> Vec<String> {
        let (mut vars, mut resources) = (vec![Vec::new(); files], vec![Vec::new(); files]);
        self.vars.iter().for_each(|entry| vars[random.usize(..files)].push(entry));
        self.resources.iter().for_each(|resource| resources[random.usize(..files)].push(resource));
        let mut documents = Vec::new();
        for (mut vars, mut resources) in vars.into_iter().zip(resources) {
            random.shuffle(&mut vars);
            random.shuffle(&mut resources);
            documents.push(document(&vars, &resources));
        }
        random.shuffle(&mut documents);
        documents
    }
}

fn document(vars: &[&String], resources: &[&DeclaredResource]) -> String {
    let mut text = String::new();
    if !vars.is_empty() {
        text += "vars:\n";
        vars.iter().for_each(|entry| text += entry);
    }
    text += if resources.is_empty() { "resources: {}\n" } else { "resources:\n" };
    for DeclaredResource { reference, attributes } in resources {
        text += &format!("  {reference}:{}\n", if attributes.is_empty() { " {}" } else { "" });
        attributes.iter().for_each(|attribute| text += &attribute.text(4));
    }
    text
}

impl DeclaredResource {
    /// Adds the defaults of the type, and removes attributes without a value.
    fn with(mut self, defaults: &[DeclaredEntry]) -> DeclaredResource {
        let of_type = self.reference.split('[').next().expect("a split has a first part");
        for default in defaults.iter().filter(|default| default.key == of_type).flat_map(DeclaredEntry::entries) {
            if !self.attributes.iter().any(|attribute| attribute.key == default.key) {
                self.attributes.push(default);
            }
        }
        self.attributes.retain(|attribute| attribute.value != "null");
        self
    }
}

impl DeclaredEntry {
    /// Returns the entries of its value: of a mapping, of a flow mapping, or the elements of a flow list.
    fn entries(&self) -> Vec<DeclaredEntry> {
        if self.value.is_empty() {
            return entries(self.below.iter().map(String::as_str), indentation(&self.below));
        }
        let lines = std::iter::once(&self.value).chain(&self.below).map(|line| line.trim());
        let flow = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        if let Some(list) = flow.strip_prefix('[') {
            let list = list.strip_suffix(']').expect("a list ends with ]");
            return parts(list)
                .into_iter()
                .map(|value| DeclaredEntry { key: plain(value), value: value.to_owned(), below: Vec::new() })
                .collect();
        }
        let Some(mapping) = flow.strip_prefix('{') else { panic!("{}: `{flow}` is no mapping", self.key) };
        let mapping = mapping.strip_suffix('}').expect("a mapping ends with }");
        parts(mapping).into_iter().map(DeclaredEntry::of_line).collect()
    }

    /// Reads `key: value` or `key:`.
    fn of_line(line: &str) -> DeclaredEntry {
        let (key, value) = line
            .split_once(": ")
            .or_else(|| Some((line.strip_suffix(':')?, "")))
            .unwrap_or_else(|| panic!("`{line}` has no key"));
        DeclaredEntry { key: plain(key), value: value.trim().to_owned(), below: Vec::new() }
    }

    /// Returns the entry as text, with this indentation of the key.
    fn text(&self, indent: usize) -> String {
        let shift = |line: &String| match line.trim() {
            "" => String::from("\n"),
            _ => {
                let depth = line.len() - line.trim_start().len() + indent + 2 - indentation(&self.below);
                format!("{}{}\n", " ".repeat(depth), line.trim_start())
            }
        };
        let separator = if self.value.is_empty() { "" } else { " " };
        let first = format!("{}{}:{separator}{}\n", " ".repeat(indent), quoted(&self.key), self.value);
        self.below.iter().map(shift).fold(first, |text, line| text + &line)
    }
}

/// Returns the entries of a mapping whose keys have this indentation.
fn entries<'t>(lines: impl Iterator<Item = &'t str>, indent: usize) -> Vec<DeclaredEntry> {
    let mut entries: Vec<DeclaredEntry> = Vec::new();
    for line in lines {
        let depth = line.len() - line.trim_start().len();
        let is_of_value = line.trim().is_empty() || depth > indent;
        match entries.last_mut() {
            // The end of a flow mapping, which is as deep as its key.
            Some(last) if is_of_value || line.trim() == "}" => last.below.push(line.to_owned()),
            _ if is_of_value || line.trim_start().starts_with('#') => {}
            _ => entries.push(DeclaredEntry::of_line(line.trim())),
        }
    }
    entries
}

/// Returns the lowest indentation of the lines.
fn indentation(lines: &[String]) -> usize {
    let depths = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    depths.min().unwrap_or(0)
}

/// Splits the inside of a flow collection at its commas.
fn parts(flow: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0, false);
    for (at, letter) in flow.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth -= 1,
            ',' if !is_quoted && depth == 0 => {
                parts.push(flow[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(flow[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns a scalar without quotes.
fn plain(scalar: &str) -> String {
    match scalar.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => text.to_owned(),
        None => scalar.to_owned(),
    }
}

/// Quotes a key that YAML would read as a number.
fn quoted(key: &str) -> String {
    if key.bytes().all(|byte| byte.is_ascii_digit()) { format!("\"{key}\"") } else { key.to_owned() }
}

/// Splits the declaration of several titles.
fn singles(entry: &DeclaredEntry) -> Vec<DeclaredResource> {
    if entry.key.ends_with(']') {
        let attributes = if entry.value.is_empty() && entry.below.is_empty() { Vec::new() } else { entry.entries() };
        return vec![DeclaredResource { reference: entry.key.clone(), attributes }];
    }
    let first = entry.below.first().map(|line| line.trim_start());
    let groups: Vec<Vec<DeclaredEntry>> = if first.is_some_and(|line| line.starts_with("- ")) {
        let indent = indentation(&entry.below);
        let mut groups: Vec<Vec<String>> = Vec::new();
        for line in entry.below.iter().filter(|line| !line.trim_start().starts_with('#')) {
            match line.get(indent..).and_then(|line| line.strip_prefix("- ")) {
                Some(rest) => groups.push(vec![format!("{}{rest}", " ".repeat(indent + 2))]),
                None => groups.last_mut().expect("a list begins with -").push(line.clone()),
            }
        }
        groups.iter().map(|lines| entries(lines.iter().map(String::as_str), indent + 2)).collect()
    } else {
        vec![entry.entries()]
    };
    let of_group = |mut group: Vec<DeclaredEntry>| {
        let titles =
            group.iter().position(|attribute| attribute.key == "titles").expect("a type without a title has titles");
        let titles = group.remove(titles);
        let block = titles.below.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let titles: Vec<String> = match titles.value.as_str() {
            "" => block.map(|line| plain(line.strip_prefix("- ").expect("titles are a list"))).collect(),
            _ => titles.entries().into_iter().map(|title| title.key).collect(),
        };
        let resource =
            move |title| DeclaredResource { reference: format!("{}[{title}]", entry.key), attributes: group.clone() };
        titles.into_iter().map(resource).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// Makes a resource for each element of `for_each`.
fn each(mut resource: DeclaredResource, vars: &[DeclaredEntry]) -> Vec<DeclaredResource> {
    let Some(at) = resource.attributes.iter().position(|attribute| attribute.key == "for_each") else {
        return vec![resource];
    };
    let variable = resource.attributes.remove(at).value;
    let name = variable.strip_prefix("${vars.").and_then(|rest| rest.strip_suffix('}'));
    let elements = vars.iter().find(|entry| Some(entry.key.as_str()) == name).expect("for_each names a variable");
    let of_element = |element: DeclaredEntry| {
        let replace = |text: &str| substituted(text, &element);
        let attribute = |attribute: &DeclaredEntry| DeclaredEntry {
            key: replace(&attribute.key),
            value: replace(&attribute.value),
            below: attribute.below.iter().map(|line| replace(line)).collect(),
        };
        let attributes = resource.attributes.iter().map(attribute).collect();
        DeclaredResource { reference: replace(&resource.reference), attributes }
    };
    elements.entries().into_iter().map(of_element).collect()
}

/// Replaces `${each.key}`, `${each.value}` and `${each.value.NAME}`. A text that is only an expression keeps the quotes
/// of the value.
fn substituted(text: &str, element: &DeclaredEntry) -> String {
    let mut names =
        vec![("${each.key}".to_owned(), element.key.clone()), ("${each.value}".to_owned(), element.value.clone())];
    if element.value.starts_with('{') {
        names
            .extend(element.entries().into_iter().map(|field| (format!("${{each.value.{}}}", field.key), field.value)));
    }
    if let Some((_, value)) = names.iter().find(|(name, _)| name == text) {
        return value.clone();
    }
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, &plain(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# A comment.
vars:
  ports: { ssh: 22, "80": http }
  users:
    alice: { uid: 1, home: "/a, b" }
  words: [x, y]
  errors: {
    "404": Not found,
  }

defaults:
  file: { owner: root, mode: "0644" }

resources:
  package:
    - titles:
        - nginx
        - git
    # Absent ones.
    - titles: [telnet]
      ensure: absent
  file:
    titles: [/srv, "/srv/a b"]
    ensure: directory
    mode: "0755"
  group[g]: { gid: 1 }
  noop[n]: {}
  user[${each.key}]:
    for_each: ${vars.users}
    uid: ${each.value.uid}
    comment: home ${each.value.home}
  # Before the rule.
  file[/etc/${each.key}]:
    for_each: ${vars.ports}
    owner: null
    content: |
      ${each.key}

        deep ${each.value}
  host[${each.value}]:
    for_each: ${vars.words}
    ip: ${each.value}
  file[/e/${each.key}]:
    for_each: ${vars.errors}
    content: "${each.value}\n"
"#;

    const SINGLE: &str = r#"vars:
  ports: { ssh: 22, "80": http }
  users:
    alice: { uid: 1, home: "/a, b" }
  words: [x, y]
  errors: {
      "404": Not found,
    }
resources:
  package[nginx]: {}
  package[git]: {}
  package[telnet]:
    ensure: absent
  file[/srv]:
    ensure: directory
    mode: "0755"
    owner: root
  file[/srv/a b]:
    ensure: directory
    mode: "0755"
    owner: root
  group[g]:
    gid: 1
  noop[n]: {}
  user[alice]:
    uid: 1
    comment: home /a, b
  file[/etc/ssh]:
    content: |
      ssh

        deep 22
    mode: "0644"
  file[/etc/80]:
    content: |
      80

        deep http
    mode: "0644"
  host[x]:
    ip: x
  host[y]:
    ip: y
  file[/e/404]:
    content: "Not found\n"
    owner: root
    mode: "0644"
"#;

    #[test]
    fn each_element_and_title_becomes_a_resource_with_its_defaults() {
        let declarations = Declarations::new(&[TEXT.to_owned()]);
        let manifest = declarations.manifest().lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        let expected = SINGLE.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        assert_eq!(manifest, expected);
        assert_eq!(declarations.count(), 13);
    }

    #[test]
    fn shuffled_manifests_contain_each_declaration_once_in_another_order() {
        let declarations = Declarations::new(&[TEXT.to_owned()]);
        let lines = |texts: &[String]| {
            let mut lines: Vec<String> = texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
            lines.retain(|line| line.starts_with("  "));
            lines.sort();
            lines
        };
        let shuffle = |seed| declarations.shuffled(3, &mut fastrand::Rng::with_seed(seed));
        assert_eq!(shuffle(1).len(), 3);
        assert_eq!(lines(&shuffle(1)), lines(&[declarations.manifest()]));
        assert_eq!(shuffle(1), shuffle(1));
        assert_ne!(shuffle(1), shuffle(2));
    }
}
