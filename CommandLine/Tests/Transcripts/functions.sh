# Functions that transcripts use besides the command.

# Not ours, and not in the repository.
NAUGHTY_STRINGS=${DATA:-$TRANSCRIPTS/../../../../shared/data}/naughty-strings.json
export NAUGHTY_STRINGS

# has NAME: a program, or something else that a section needs.
has() {
    case $1 in
    root) [ "$(id -u)" = 0 ] ;;
    keyring) "$TRANSCRIPTS/keyring" ;;
    no-keyring) ! "$TRANSCRIPTS/keyring" ;;
    extended) [ -e "${EXECUTABLE%/*/*}/libexec/lockbox-extended" ] ;;
    secret-service) lockbox secret-service -- true 2>/dev/null ;;
    python-keyring) /usr/bin/python3 -c 'import keyring, secretstorage' 2>/dev/null ;;
    python-dbus-next) /usr/bin/python3 -c 'import dbus_next' 2>/dev/null ;;
    botocore) python3 -c 'import botocore' 2>/dev/null ;;
    naughty-strings) [ -e "$NAUGHTY_STRINGS" ] ;;
    *) type "$1" >/dev/null 2>&1 ;;
    esac
}

# The file of the item that was written last.
newest() {
    find "$STORE/items" -type f ! -name lock -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

# flip [FILE [OFFSET]]: changes a bit of the item that was written last, or of a file; in its last byte, or at an offset. The key
# and the attributes of an item can be read still, if it is the last byte.
flip() {
    local file=${1:-$(newest)} offset byte
    offset=${2:-$(($(stat -c %s "$file") - 1))}
    byte=$(od -An -tu1 -j "$offset" -N 1 "$file")
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}

# Makes all of that item unreadable.
destroy() { head -c 300 /dev/zero | tr '\0' x >"$(newest)"; }

# expire KEY [OPTION…]: waits until it has expired.
expire() {
    lockbox change "$@" --expires 1s && while lockbox get "$@" >/dev/null 2>&1; do sleep 0.02; done
}

# protect [OPTION…]: gives the store a passcode, which is in the file passcode then.
protect() {
    echo 'correct horse' >passcode
    lockbox passcode set --quiet --strength interactive --new-passcode-file passcode "$@"
}

# recover [OPTION…]: makes a recovery code as a script does, in the file code.
recover() {
    rm -f out in
    mkfifo out in
    lockbox passcode recovery --output-fd 3 --confirm-file in --passcode-file passcode "$@" 3>out &
    cat out >code
    cat code >in
    wait $!
}

# refused STATUS [PATTERN]: runs each command that it reads, in lines or between ";;", and prints those that do not end with this
# status, that print something, or whose error is not one line "lockbox: …." with this pattern.
refused() {
    local line status output
    while IFS= read -r line; do
        count=$((count + 1))
        output=$(eval "$line" 2>&1 >"$HOME/refused" </dev/null) && status=0 || status=$?
        if [ $status != "$1" ] || [ -s "$HOME/refused" ] || [ "$(wc -l <<<"$output")" != 1 ] ||
            ! [[ $output =~ ^lockbox:\ .*[.?]$ ]] || ! grep -q -e "${2:-}" <<<"$output" ||
            [[ $output == *hunter2* ]]; then
            printf '%s: status %s: %s%s\n' "$line" $status "$output" "$(cat "$HOME/refused")"
        fi
    done < <(sed 's/ ;; /\n/g')
    [ $count -gt 0 ] || echo 'there is nothing to run'
    rm -f "$HOME/refused"
}

# json EXPRESSION: of Python, where j is the JSON on standard input.
json() { python3 -c 'import json, sys; j = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }

# start COMMAND…: in the background, until the section ends.
start() {
    touch log
    "$@" >>log 2>&1 </dev/null &
    echo $! >>processes
}

# waituntil COMMAND…: for half a minute.
waituntil() {
    local end=$((SECONDS + 30))
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "never: $*"; return 1; }
        sleep 0.02
    done
}

# Prints two ports, one after the other, that nobody listens on. They are below those that the system gives to connections.
ports() {
    python3 -c '
import random, socket
while True:
    first, free = random.randrange(20000, 32000), []
    try: [(free.append(socket.socket()), free[-1].bind(("127.0.0.1", first + n))) for n in (0, 1)]
    except OSError: continue
    print(first, first + 1)
    break'
}
