functions[_kilter_generated]=$functions[_kilter]

# Offers types, resources and attributes, and otherwise the words of the generated script.
_kilter() {
    local -a replies
    replies=(${(f)"$(${(Q)words[1]} complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)"})
    if (( ! $#replies )); then
        _kilter_generated "$@"
        return
    fi
    # A value or a title directly follows an attribute or a type.
    compadd -S '' -- ${(M)replies:#*[=\[]}
    compadd -- ${replies:#*[=\[]}
}

if [ "$funcstack[1]" = "_kilter" ]; then
    _kilter "$@"
else
    compdef _kilter kilter
fi
