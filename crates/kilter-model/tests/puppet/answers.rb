# Answers with Puppet's own type system: reads a line of JSON for each question, {"type": TEXT,
# "value": VALUE}, and prints a line of JSON for each, {"accept": true}, {"message": TEXT} or
# {"error": TEXT}. Values that JSON has no form for are objects with __ptype and __pvalue.

require 'json'
require 'puppet'

include Puppet::Pops

def value_of(json)
  case json
  when Array
    json.map { |element| value_of(element) }
  when Hash
    json.key?('__ptype') ? rich_value(json['__ptype'], json['__pvalue']) : json.transform_values { |v| value_of(v) }
  else
    json
  end
end

def rich_value(kind, content)
  case kind
  when 'Default' then :default
  when 'Sensitive' then Types::PSensitiveType::Sensitive.new(value_of(content))
  when 'Timestamp' then Puppet::Pops::Time::Timestamp.parse(content)
  when 'Timespan' then Puppet::Pops::Time::Timespan.parse(content)
  when 'SemVer' then SemanticPuppet::Version.parse(content)
  when 'SemVerRange' then SemanticPuppet::VersionRange.parse(content)
  when 'Regexp' then Regexp.new(content)
  when 'Binary' then Types::PBinaryType::Binary.from_base64_strict(content)
  when 'Type' then Types::TypeParser.singleton.parse(content)
  when 'Float' then { 'NaN' => Float::NAN, 'inf' => Float::INFINITY, '-inf' => -Float::INFINITY }.fetch(content)
  when 'Hash' then value_of(content).each_slice(2).to_h
  else raise "no such kind: #{kind}"
  end
end

def answer(question)
  type = Types::TypeParser.singleton.parse(question['type'])
  value = value_of(question['value'])
  return { accept: true } if type.instance?(value)

  inferred = Types::TypeCalculator.singleton.infer_set(value)
  { message: Types::TypeMismatchDescriber.singleton.describe_mismatch('t.x', type, inferred) }
rescue StandardError => e
  { error: "#{e.class}: #{e.message}" }
end

Puppet.initialize_settings(['--confdir', ARGV[0], '--vardir', ARGV[0]])
environment = Puppet::Node::Environment.create(:none, [])
loaders = Puppet::Pops::Loaders.new(environment)
$stdout.sync = false
Puppet.override(loaders: loaders, current_environment: environment) do
  $stdin.each_line { |line| puts JSON.generate(answer(JSON.parse(line))) }
end
