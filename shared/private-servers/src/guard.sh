# Runs one server for as long as standard input stays open.
# $1 signal for an orderly stop, $2 directory to remove at the end or "", $3 log, $4… the server.
# Prints "started <pid>" and "ended <status>". The word "keep" on standard input cancels the removal of $2.
signal=$1 remove=$2 log=$3
shift 3
umask 077
# A signal to the whole process group (from a terminal, or at the end of a container) must not end the guard before its
# server.
trap '' HUP INT PIPE TERM
# The standard input of background commands is /dev/null, so the pipe is kept as descriptor 3.
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
# From here on, another process may get the server's pid, so it must not be signalled any more.
kill -s KILL "$watcher"
wait "$watcher"
echo "ended $status"

[ -n "$remove" ] || exit 0
# A killed server may be started again with its files, so the guard removes them only when the pipe closes.
while read -r word <&3; do
    [ "$word" != keep ] || exit 0
done
# The shared memory of a killed PostgreSQL is the only thing that is not a file. Its lock file contains the id.
if [ -f "$remove/data/postmaster.pid" ]; then
    ipcrm -m "$(sed -n '7s/.* //p' "$remove/data/postmaster.pid")"
fi
# Children of a killed server may write for another moment.
tenths=0
until rm -rf -- "$remove" || [ "$tenths" -ge 50 ]; do
    sleep 0.1
    tenths=$((tenths + 1))
done
