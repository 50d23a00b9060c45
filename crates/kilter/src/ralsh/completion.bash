# Completion of ralsh for bash: types, names, attributes and their values, options.
# It only ever asks with --complete, which lists and changes nothing.
_ralsh() {
    COMPREPLY=()
    local -a words=() asked=() replies=()
    local word cur i type='' places=0 awaited='' ended=''
    __kilter_split || return

    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ -n $awaited ]]; then
            [[ $awaited == -I ]] && asked+=("-I$word")
            awaited=''
        elif [[ -n $ended || $word != -?* ]]; then
            ((places++ == 0)) && type=$word
        elif [[ $word == -- ]]; then
            ended=yes
        elif [[ $word == -I || $word == --include ]]; then
            awaited=-I
        elif [[ $word == -I* ]]; then
            asked+=("$word")
        elif [[ $word == --include=* ]]; then
            asked+=("-I${word#*=}")
        elif [[ $word == -l || $word == --log-level ]]; then
            awaited=-l
        elif [[ $word == -t || $word == --target ]]; then
            awaited=-t
        fi
    done

    if [[ $awaited == -I || $cur == --include=* ]]; then
        mapfile -t replies < <(compgen -o dirnames -- "${cur#--include=}")
        [[ $cur == --include=* && $COMP_WORDBREAKS != *=* ]] && replies=("${replies[@]/#/--include=}")
        compopt -o filenames 2>/dev/null
        COMPREPLY=("${replies[@]}")
        return
    elif [[ $awaited == -l ]]; then
        mapfile -t replies < <(compgen -W 'none trace debug info warn error fatal' -- "$cur")
    elif [[ -n $awaited ]]; then
        return
    elif [[ $cur == -* && -z $ended ]]; then
        mapfile -t replies < <(compgen -W '--explain --target --sudo --keep --help --include --log-level --json
            --quiet --absent --version' -- "$cur")
    else
        case $places in
        0) asked+=(--complete types) ;;
        1) asked+=(--complete names -- "$type") ;;
        *) asked+=(--complete attributes -- "$type") ;;
        esac
        while IFS= read -r word; do
            [[ $word == "$cur"* ]] && replies+=("$word")
        done < <("${words[0]}" -l none "${asked[@]}" 2>/dev/null </dev/null)
    fi
    __kilter_offer
}

complete -F _ralsh ralsh
