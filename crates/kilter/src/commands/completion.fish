
# Offers types, resources and attributes.
function __kilter_words
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words[2..-1] 2>/dev/null </dev/null
end
for command in get set act status types init
    complete -c kilter -n "__fish_kilter_using_subcommand $command" -f -a '(__kilter_words)'
end
complete -c kilter -n '__fish_kilter_using_subcommand explain' -a '(__kilter_words)'
