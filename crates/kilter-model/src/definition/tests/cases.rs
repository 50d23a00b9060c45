//! Invalid definitions with all their messages.

use super::faults::Make;

pub(super) const CASES: &[(Make, &str, &[&str])] = &[
    (
        Make::Whole,
        r##"[]"##,
        &["the definition: expects a hash with the keys `name`, `desc` and `attributes`, got an Array"],
    ),
    (
        Make::Whole,
        r##""x""##,
        &["the definition: expects a hash with the keys `name`, `desc` and `attributes`, got a String"],
    ),
    (
        Make::Whole,
        r##"null"##,
        &["the definition: expects a hash with the keys `name`, `desc` and `attributes`, got nothing"],
    ),
    (Make::Whole, r##"{}"##, &["the definition: it has no `name`", "the definition: it has no `attributes`"]),
    (
        Make::Whole,
        r##"{"name": "t", "desc": "d", "attributes": []}"##,
        &["attributes: expects a hash of attributes by name, got an Array"],
    ),
    (
        Make::Whole,
        r##"{"name": "t", "desc": "d", "attributes": {}}"##,
        &["attributes: no attribute is a namevar: nothing identifies a resource (add `behaviour: namevar` to the \
             one that names it)"],
    ),
    (Make::Whole, r##"{"name": "t", "desc": "d", "attributes": null}"##, &["the definition: it has no `attributes`"]),
    (
        Make::Whole,
        r##"{"name": 7, "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["name: expects a text, got an Integer"],
    ),
    (
        Make::Whole,
        r##"{"name": "etcd-key", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["name: `etcd-key` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and \
             `_` (did you mean `etcd_key`?)"],
    ),
    (
        Make::Whole,
        r##"{"name": "EtcdKey", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["name: `EtcdKey` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_` \
             (did you mean `etcdkey`?)"],
    ),
    (
        Make::Whole,
        r##"{"name": "7zip", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["name: `7zip` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_`"],
    ),
    (
        Make::Whole,
        r##"{"name": "a::", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["name: `a::` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_`"],
    ),
    (
        Make::Whole,
        r##"{"name": "t", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d"}}}"##,
        &["attributes: no attribute is a namevar: nothing identifies a resource (add `behaviour: namevar` to the \
             one that names it)"],
    ),
    (
        Make::Whole,
        r##"{"name": "t", "desc": "d", "attributes": {"a": {"type": "String", "desc": "d", "behaviour": "namevar"}, "b": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &["attributes: the namevars `a`, `b` need `title_patterns`"],
    ),
    (
        Make::Whole,
        r##"{"name": "t", "desc": "d", "attributes": {"a": {"type": "Sensitive[String]", "desc": "d", "behaviour": "namevar"}}}"##,
        &["attributes.a.type: a namevar cannot be Sensitive: it is shown wherever the resource is named"],
    ),
    (
        Make::Whole,
        r##"{"name": "t", ":name": "u", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"##,
        &[":name: `name` is declared twice, as a text and as a symbol"],
    ),
    (Make::Type, r##""docs": "e""##, &["docs: there are both `desc` and `docs`, which mean the same (keep `desc`)"]),
    (Make::Type, r##""docs": ["e"]"##, &["docs: there are both `desc` and `docs`, which mean the same (keep `desc`)"]),
    (
        Make::Type,
        r##""features": "no_such", "title_patterns": {}"##,
        &["title_patterns: expects a list of patterns, each with `pattern` and `desc`, got a Hash"],
    ),
    (Make::Type, r##""features": {"canonicalize": true}"##, &["features: expects a list of features, got a Hash"]),
    (
        Make::Type,
        r##""features": [1, []]"##,
        &[
            "features[0]: expects a text among the features, got an Integer",
            "features[1]: expects a text among the features, got an Array",
        ],
    ),
    (
        Make::Type,
        r##""title_patterns": "^(?<name>.*)$""##,
        &["title_patterns: expects a list of patterns, each with `pattern` and `desc`, got a String"],
    ),
    (
        Make::Type,
        r##""title_patterns": ["^(?<name>.*)$", 7]"##,
        &[
            "title_patterns[0]: expects a hash with `pattern` and `desc`, got a String (write {pattern: …, desc: …})",
            "title_patterns[1]: expects a hash with `pattern` and `desc`, got an Integer",
        ],
    ),
    (Make::Type, r##""title_patterns": [{"desc": "d"}]"##, &["title_patterns[0]: it has no `pattern`"]),
    (
        Make::Type,
        r##""title_patterns": [{"pattern": ["x"], "desc": "d"}]"##,
        &["title_patterns[0].pattern: expects the text of a regular expression, got an Array"],
    ),
    (
        Make::Type,
        r##""title_patterns": [{"pattern": "(?<name>", "desc": "d"}]"##,
        &["title_patterns[0].pattern: it is not a regular expression: Parsing error at position 8: Opening \
             parenthesis without closing parenthesis"],
    ),
    (
        Make::Type,
        r##""title_patterns": [{"pattern": "(?<name>[a-z", "desc": "d"}]"##,
        &["title_patterns[0].pattern: it is not a regular expression: Parsing error at position 12: Invalid \
             character class"],
    ),
    (
        Make::Type,
        r##""title_patterns": [{"pattern": ".*", "desc": "d"}]"##,
        &["title_patterns[0].pattern: it has no named group, so that it yields no namevar (such as (?<name>.*))"],
    ),
    (
        Make::Type,
        r##""title_patterns": [{"pattern": "(?<nam>.*)", "desc": "d"}, {"pattern": "(?<ensure>.*) (?<name>.*)", "desc": 7}]"##,
        &[
            "title_patterns[1].desc: expects a text, got an Integer",
            "title_patterns[0].pattern: the group `nam` is not a namevar (did you mean `name`?)",
            "title_patterns[1].pattern: the group `ensure` is not a namevar (the namevars are name)",
        ],
    ),
    (
        Make::Type,
        r##""autorequire": "package""##,
        &["autorequire: expects a hash of titles by type, such as {package: apt}, got a String"],
    ),
    (
        Make::Type,
        r##""autorequire": {"package": {"a": 1}}"##,
        &["autorequire.package: expects a title, an `$attribute`, or a list of them, got a Hash"],
    ),
    (
        Make::Type,
        r##""autorequire": {"package": ["apt", "$nam"]}"##,
        &["autorequire.package[1]: there is no attribute `nam` (did you mean `name`?)"],
    ),
    (
        Make::Type,
        r##""part_of": "file""##,
        &["part_of: expects a hash such as {type: file, by: path, into: parts}, got a String"],
    ),
    (Make::Type, r##""part_of": {"type": "file", "by": "name"}"##, &["part_of: it has no `into`"]),
    (
        Make::Type,
        r##""part_of": {"type": "file", "by": "nam", "into": "parts"}"##,
        &["part_of.by: there is no attribute `nam` that could name the containing resource"],
    ),
    (Make::Type, r##""autorequire": {"package": "$"}"##, &["autorequire.package: there is no attribute ``"]),
    (
        Make::Type,
        r##""autobefore": {"my-type": "x"}"##,
        &["autobefore.my-type: `my-type` is not the name of a type: it must begin with a letter and contain only \
             a-z, 0-9 and `_` (did you mean `my_type`?)"],
    ),
    (
        Make::Type,
        r##""autobefore": {"": "x"}"##,
        &["autobefore.: `` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_`"],
    ),
    (
        Make::Type,
        r##""autosubscribe": {"file": "/etc/${vars.nam}"}"##,
        &["autosubscribe.file: there is no attribute `nam` (did you mean `name`?)"],
    ),
    (
        Make::Type,
        r##""autosubscribe": {"file": "/etc/${name}"}"##,
        &["autosubscribe.file: `name` names no variable, fact or output (shell text needs `$${name}`; a variable is \
             written `${vars.name}`)"],
    ),
    (
        Make::Type,
        r##""autosubscribe": {"file": "/etc/${vars.name"}"##,
        &["autosubscribe.file: this `${` is never closed (add `}`; a literal `${` is written `$${`)"],
    ),
    (
        Make::Type,
        r##""autonotify": {"exec": ["a", "${facts.os.family}", "${exec[x].stdout}"]}"##,
        &[
            "autonotify.exec[1]: only the resource's own values may be used here (vars.NAME is the value of the \
             attribute NAME)",
            "autonotify.exec[2]: only the resource's own values may be used here (vars.NAME is the value of the \
             attribute NAME)",
        ],
    ),
    (
        Make::Type,
        r##""autonotify": {"exec": "${1 +}", "file": ["$x"]}"##,
        &["autonotify.exec: unexpected `}`, expected a value", "autonotify.file: there is no attribute `x`"],
    ),
    (Make::Type, r##""outputs": ["stdout"]"##, &["outputs: expects a hash of outputs by name, got an Array"]),
    (
        Make::Type,
        r##""outputs": {"stdout": 1}"##,
        &["outputs.stdout: expects a description, or a hash with `type` and `desc`, got an Integer"],
    ),
    (
        Make::Type,
        r##""outputs": {"size": {"type": "Integr", "desc": "x", "tpye": 1}}"##,
        &[
            "outputs.size.type: there is no type Integr (did you mean `Integer`?)",
            "outputs.size.tpye: an output has no key `tpye` (did you mean `type`?)",
        ],
    ),
    (Make::Type, r##""aliases": ["Integer"]"##, &["aliases: expects a hash of types by name, got an Array"]),
    (
        Make::Type,
        r##""aliases": {"Integer": "String"}"##,
        &["aliases.Integer: `Integer` is the name of a type of the language"],
    ),
    (
        Make::Type,
        r##""aliases": {"port": "Integer"}"##,
        &["aliases.port: `port` is not the name of a type: it must begin with a capital letter (such as Port or \
             My::Port)"],
    ),
    (Make::Type, r##""aliases": {"Port": 80}"##, &["aliases.Port: expects the text of a data type, got an Integer"]),
    (
        Make::Type,
        r##""aliases": {"Port": "Integr[1]"}"##,
        &["aliases.Port: there is no type Integr (did you mean `Integer`?)"],
    ),
    (
        Make::Type,
        r##""aliases": {"A": "NotUndef[B]", "B": "Optional[A]", "C": "Array[C]"}"##,
        &["aliases.A: the type `A` is defined by itself: a recursive reference must be inside an array or a hash"],
    ),
    (
        Make::Attributes,
        r##""x": "String""##,
        &["attributes.x: expects a hash with `type` and `desc`, got a String (write {type: \"String\", desc: …})"],
    ),
    (Make::Attributes, r##""x": "nothing""##, &["attributes.x: expects a hash with `type` and `desc`, got a String"]),
    (Make::Attributes, r##""x": null"##, &["attributes.x: expects a hash with `type` and `desc`, got nothing"]),
    (Make::Attributes, r##""x": []"##, &["attributes.x: expects a hash with `type` and `desc`, got an Array"]),
    (Make::Attributes, r##""tag": {"type": "String", "desc": "d"}"##, &["attributes.tag: the name `tag` is reserved"]),
    (
        Make::Attributes,
        r##""provider": {"type": "String", "desc": "d"}"##,
        &["attributes.provider: the name `provider` is reserved"],
    ),
    (
        Make::Attributes,
        r##""rsapi_custom_insync_trigger": {"type": "Boolean", "desc": "d"}"##,
        &["attributes.rsapi_custom_insync_trigger: the name `rsapi_custom_insync_trigger` is reserved"],
    ),
    (
        Make::Attributes,
        r##""a-b": {"type": "String", "desc": "d"}"##,
        &["attributes.a-b: `a-b` is not the name of an attribute: it must contain only letters, digits and `_`"],
    ),
    (
        Make::Attributes,
        r##""": {"type": "String", "desc": "d"}"##,
        &["attributes.: `` is not the name of an attribute: it must contain only letters, digits and `_`"],
    ),
    (
        Make::Attributes,
        r##"":name": {"type": "String", "desc": "d"}"##,
        &["attributes.:name: `name` is declared twice, as a text and as a symbol"],
    ),
    (
        Make::Attributes,
        r##""ensure": {"type": "Boolean", "desc": "d"}"##,
        &["attributes.ensure.type: `ensure` expects the type Enum[present, absent], got Boolean \
             (Optional[Enum[present, absent]] does not manage undeclared attributes)"],
    ),
    (
        Make::Attributes,
        r##""ensure": {"type": "Enum[present]", "desc": "d"}"##,
        &["attributes.ensure.type: `ensure` expects the type Enum[present, absent], got Enum['present'] \
             (Optional[Enum[present, absent]] does not manage undeclared attributes)"],
    ),
    (
        Make::Attributes,
        r##""ensure": {"type": "Enum[present, absent, latest]", "desc": "d"}"##,
        &["attributes.ensure.type: `ensure` expects the type Enum[present, absent], got Enum['present', 'absent', \
             'latest'] (Optional[Enum[present, absent]] does not manage undeclared attributes)"],
    ),
    (
        Make::Attributes,
        r##""ensure": {"type": "Enum[present, absent]", "desc": "d", "lazy": true}"##,
        &["attributes.ensure.lazy: `ensure` cannot be lazy: nothing is known without it"],
    ),
    (
        Make::Attributes,
        r##""a": {"desc": "d"}, "b": {"type": "Enum[a", "desc": "d"}, "c": {"type": "Boolean", "desc": "d", "default": "yes"}"##,
        &[
            "attributes.a: it has no `type` (such as type: String)",
            "attributes.b.type: `Enum[a` is not a data type: the closing ] is missing (at character 7)",
            "attributes.c.default: the default does not match the attribute's type: expects a Boolean value, got \
             String",
        ],
    ),
    (Make::Attribute, r##""desc": "d""##, &["attributes.x: it has no `type` (such as type: String)"]),
    (Make::Attribute, r##""type": null, "desc": "d""##, &["attributes.x: it has no `type` (such as type: String)"]),
    (
        Make::Attribute,
        r##""type": ["String"], "desc": "d""##,
        &["attributes.x.type: expects the text of a data type, got an Array"],
    ),
    (
        Make::Attribute,
        r##""type": "string", "desc": "d""##,
        &["attributes.x.type: `string` is not a data type: the name of a type, such as String, is expected (at \
             character 1) (did you mean `String`?)"],
    ),
    (
        Make::Attribute,
        r##""type": "Enum[a", "desc": "d""##,
        &["attributes.x.type: `Enum[a` is not a data type: the closing ] is missing (at character 7)"],
    ),
    (
        Make::Attribute,
        r##""type": "Bolean", "desc": "d""##,
        &["attributes.x.type: there is no type Bolean (did you mean `Boolean`?)"],
    ),
    (
        Make::Attribute,
        r##""type": "Optional[Wibble::Wobble]", "desc": "d""##,
        &["attributes.x.type: there is no type Wibble::Wobble"],
    ),
    (
        Make::Attribute,
        r##""type": "Integer[a]", "desc": "d""##,
        &["attributes.x.type: `Integer[a]` is not a data type: Integer takes whole numbers or `default` (at \
             character 1)"],
    ),
    (
        Make::Attribute,
        r##""type": "Pattern[/(/]", "desc": "d""##,
        &["attributes.x.type: `Pattern[/(/]` is not a data type: /(/ is not a regular expression: Parsing error at \
             position 1: Opening parenthesis without closing parenthesis (at character 9)"],
    ),
    (
        Make::Attribute,
        r##""type": "", "desc": "d""##,
        &["attributes.x.type: `` is not a data type: the name of a type, such as String, is expected (at character 1)"],
    ),
    (Make::Attribute, r##""type": "String", "desc": {"a": 1}"##, &["attributes.x.desc: expects a text, got a Hash"]),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "behaviour": "namevar", "behavior": "namevar""##,
        &[
            "attributes.x.behavior: there are both `behaviour` and `behavior`, which mean the same (keep one)",
            "attributes: the namevars `name`, `x` need `title_patterns`",
        ],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "behaviour": "readonly""##,
        &["attributes.x.behaviour: `readonly` is not a behaviour (did you mean `read_only`?)"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "behaviour": "wibble""##,
        &["attributes.x.behaviour: `wibble` is not a behaviour (there are property, namevar, init_only, read_only, \
             parameter)"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "behavior": ["namevar"]"##,
        &["attributes.x.behavior: expects a word, got an Array"],
    ),
    (
        Make::Attribute,
        r##""type": "Integer", "desc": "d", "default": "7""##,
        &["attributes.x.default: the default does not match the attribute's type: expects an Integer value, got \
             String (take it out of quotes: 7)"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "default": 7"##,
        &["attributes.x.default: the default does not match the attribute's type: expects a String value, got \
             Integer (put it in quotes: \"7\")"],
    ),
    (
        Make::Attribute,
        r##""type": "Sensitive[Integer]", "desc": "d", "default": "hunter2""##,
        &["attributes.x.default: the default does not match the attribute's type: expects a Sensitive[Integer] \
             value, got Sensitive[String]"],
    ),
    (
        Make::Attribute,
        r##""type": "Array[String]", "desc": "d", "default": ["a", 1]"##,
        &["attributes.x.default: the default does not match the attribute's type: index 1 expects a String value, \
             got Integer"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "required": "yes""##,
        &["attributes.x.required: expects true or false, got a String"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "required": true, "behaviour": "read_only""##,
        &["attributes.x.required: a read_only attribute is never given"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "comparison": "sets""##,
        &["attributes.x.comparison: `sets` is not a comparison (did you mean `set`?)"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "comparison": ["set"]"##,
        &["attributes.x.comparison: expects a word, got an Array"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "comparison": "set""##,
        &["attributes.x.comparison: the comparison `set` is one of arrays, and the type String has none"],
    ),
    (
        Make::Attribute,
        r##""type": "Optional[Integer]", "desc": "d", "comparison": "case_insensitive""##,
        &["attributes.x.comparison: the comparison `case_insensitive` is one of texts, and the type \
             Optional[Integer] has none"],
    ),
    (
        Make::Attribute,
        r##""type": "Boolean", "desc": "d", "comparison": "at_least""##,
        &["attributes.x.comparison: the comparison `at_least` is one of numbers or versions, and the type Boolean \
             has none"],
    ),
    (
        Make::Attribute,
        r##""type": "Integer", "desc": "d", "comparison": "bounds""##,
        &["attributes.x.comparison: the comparison `bounds` is one of texts, and the type Integer has none"],
    ),
    (
        Make::Attribute,
        r##""type": "Array[String]", "desc": "d", "comparison": "set", "behaviour": "parameter""##,
        &["attributes.x.comparison: a parameter is never compared"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "lazy": 1"##,
        &["attributes.x.lazy: expects true or false, got an Integer"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "lazy": true, "behaviour": "parameter""##,
        &["attributes.x.lazy: a parameter cannot be lazy: it is not read from the system"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "providers": {"apt": 1}"##,
        &["attributes.x.providers: expects a list of names of providers, got a Hash"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "providers": ["apt", ""]"##,
        &["attributes.x.providers[1]: one of the names of providers is empty"],
    ),
    (
        Make::Attribute,
        r##""type": "String", "desc": "d", "required_features": 7"##,
        &["attributes.x.required_features: expects a list of features, got an Integer"],
    ),
    (
        Make::Attribute,
        r##""type": "Wibble", "desc": 7, "behaviour": "wibble", "comparison": "wibble", "lazy": "wibble""##,
        &[
            "attributes.x.type: there is no type Wibble",
            "attributes.x.desc: expects a text, got an Integer",
            "attributes.x.behaviour: `wibble` is not a behaviour (there are property, namevar, init_only, read_only, \
             parameter)",
            "attributes.x.lazy: expects true or false, got a String",
            "attributes.x.comparison: `wibble` is not a comparison (there are equal, set, subset, case_insensitive, \
             words, at_least, at_most, bounds)",
        ],
    ),
];
