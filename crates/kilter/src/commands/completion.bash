# Offers types, resources and attributes, and otherwise the words of the generated script.
_kilter_words() {
    COMPREPLY=()
    local -a words=() replies=()
    local word cur
    if __kilter_split; then
        while IFS= read -r word; do
            [[ $word == "$cur"* ]] && replies+=("$word")
        done < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null </dev/null)
    fi
    if ((${#replies[@]})); then
        __kilter_offer
    else
        _kilter "$@"
    fi
}

complete -F _kilter_words -o bashdefault -o default kilter
