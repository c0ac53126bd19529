#!/usr/bin/env bash
# Follows the first start that the official image documents: initialise the data directory, create the database, run the
# files of /docker-entrypoint-initdb.d against a server that listens only on its socket, and then start the real server.
set -Eeuo pipefail

[[ ${1:-} != -* ]] || set -- postgres "$@"
[[ ${1:-} == postgres ]] || exec "$@"

if [[ $(id -u) == 0 ]]; then
	chown -R postgres: "$PGDATA" /var/run/postgresql
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi

if [[ ! -s $PGDATA/PG_VERSION ]]; then
	: "${POSTGRES_USER:=postgres}"
	: "${POSTGRES_DB:=$POSTGRES_USER}"
	if [[ -n ${POSTGRES_PASSWORD_FILE:-} ]]; then
		POSTGRES_PASSWORD=$(<"$POSTGRES_PASSWORD_FILE")
	fi
	if [[ -z ${POSTGRES_PASSWORD:-} ]]; then
		echo "Error: POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE must be set." >&2
		exit 1
	fi
	chmod 0700 "$PGDATA"
	# shellcheck disable=SC2086 # arguments, separated by spaces
	initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") ${POSTGRES_INITDB_ARGS:-}
	printf '\nhost all all all %s\n' "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"

	PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -w start -o "$(printf '%q ' "${@:2}" -c listen_addresses= -p 5432)"
	run=(psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --username "$POSTGRES_USER")
	if [[ $POSTGRES_DB != postgres ]]; then
		"${run[@]}" --dbname postgres --command "create database \"$POSTGRES_DB\""
	fi
	export POSTGRES_USER POSTGRES_DB
	shopt -s nullglob
	for file in /docker-entrypoint-initdb.d/*; do
		case $file in
		*.sh)
			if [[ -x $file ]]; then
				"$file"
			else
				# shellcheck disable=SC1090 # as the official image does
				. "$file"
			fi
			;;
		*.sql) "${run[@]}" --dbname "$POSTGRES_DB" --file "$file" ;;
		esac
	done
	PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
fi

exec "$@"
