# Functions for completions in bash.

# Sets `words` to the words of the line up to the cursor, without quotes, and `cur` to the last of them. Fails if a shell
# would replace a part of a word: nothing runs to complete a line.
__kilter_split() {
    local line=${COMP_LINE:0:COMP_POINT} word i
    words=()
    # bash splits words at = and :, which are put together here as they stand in the line.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
            line=${line#"${line%%[![:space:]]*}"}
            words+=('')
        fi
        ((i == COMP_CWORD)) && word=$line
        words[${#words[@]} - 1]+=$word
        line=${line#"$word"}
    done

    for ((i = 0; i < ${#words[@]}; i++)); do
        [[ ${words[i]} == *['$`']* ]] && return 1
        # shellcheck disable=SC2088
        [[ ${words[i]} == '~/'* ]] && words[i]=$HOME/${words[i]:2}
        words[i]=${words[i]//[\\\'\"]/}
    done
    cur=${words[${#words[@]} - 1]}
}

# Offers `replies`. bash replaces only the part after the last character at which it splits words.
__kilter_offer() {
    local prefix=$cur word
    case $cur in
    *[=:@]*)
        prefix=${cur##*[=:@]}
        prefix=${cur%"$prefix"}
        [[ $COMP_WORDBREAKS != *"${prefix: -1}"* ]] && prefix=''
        ;;
    *) prefix='' ;;
    esac
    for word in "${replies[@]}"; do
        [[ $word == *= ]] && compopt -o nospace 2>/dev/null
        printf -v word '%q' "${word#"$prefix"}"
        COMPREPLY+=("$word")
    done
}
