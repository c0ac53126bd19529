//go:build tools

// Package tools pins the version of Docker Compose that tests build and run.
package tools

import _ "github.com/docker/compose/v2/cmd"
