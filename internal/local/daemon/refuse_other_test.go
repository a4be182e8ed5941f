//go:build unix && !linux

package daemon

import "github.com/exthost/exthost/internal/testing/processtest"

var peerVerbs map[string]processtest.Verb
