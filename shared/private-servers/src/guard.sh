# Runs one server for as long as standard input stays open.
# $1 signal for an orderly stop, $2 directory to remove at the end or "", $3 log, $4… the server.
# Says "started <pid>" and "ended <status>"; the word "keep" on standard input takes $2 back.
signal=$1 remove=$2 log=$3
shift 3
umask 077
# Whoever signals everybody (a terminal, a container's end) must not silence the guard before its server.
trap '' HUP INT PIPE TERM
# The standard input of what runs in the background is /dev/null.
exec 3<&0

"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
echo "started $server"

{
    while read -r _ <&3; do :; done
    kill -s "$signal" "$server"
    tenths=0
    while [ "$tenths" -lt 100 ]; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    kill -s KILL "$server"
} >/dev/null 2>&1 &
watcher=$!

wait "$server"
status=$?
# From here on the server's number may become somebody else's: nobody signals it any more.
kill -s KILL "$watcher"
wait "$watcher"
echo "ended $status"

[ -n "$remove" ] || exit 0
# A server that was killed may be started again on its files: they go when the pipe closes.
while read -r word <&3; do
    [ "$word" != keep ] || exit 0
done
# The one thing of a killed PostgreSQL that is not a file; its lock file names it.
if [ -f "$remove/data/postmaster.pid" ]; then
    ipcrm -m "$(sed -n '7s/.* //p' "$remove/data/postmaster.pid")"
fi
# Children of a server that was killed may write for another moment.
tenths=0
until rm -rf -- "$remove" || [ "$tenths" -ge 50 ]; do
    sleep 0.1
    tenths=$((tenths + 1))
done
