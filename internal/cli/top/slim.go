//go:build slim

package top

import (
	"context"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
)

// watch is nil: a slim build draws nothing.
var watch func(context.Context, *console.Console, *hosts.Running) error
