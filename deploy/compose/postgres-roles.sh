#!/bin/sh
# Creates the database and the services' roles at the first start of PostgreSQL, as `drover operator init` wrote them.
set -eu

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres --file=/run/drover/roles.sql
