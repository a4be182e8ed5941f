package exthost

import (
	"fmt"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// codeUnsupported marks what a file may say and this version cannot do yet.
const codeUnsupported = "unsupported"

// unsupported is why c cannot run with this version, nil when it can.
func unsupported(c *discovery.Candidate) *protocol.Diagnostic {
	d := &protocol.Diagnostic{Level: protocol.LevelWarn, Code: codeUnsupported, Extension: c.ID, Path: c.Path}
	switch kind := c.Manifest.Transport.Kind; kind {
	case manifest.KindStdio, manifest.KindExec, manifest.KindHTTP, manifest.KindSSE:
	default:
		d.Message = fmt.Sprintf("transport kind %s is not built in yet", kind)
		return d
	}
	return nil
}

// ignored are the parts of c's manifest that this version accepts without effect.
func ignored(c *discovery.Candidate, o manifest.Options) (diags []protocol.Diagnostic) {
	m := c.Manifest
	for _, part := range []struct {
		key    string
		stated bool
	}{
		{"[runtime.limits]", unkeptLimits(m)},
		{"runtime.isolate", o.Isolate != manifest.IsolateNone && !process.CanIsolate},
	} {
		if part.stated {
			diags = append(diags, protocol.Diagnostic{Level: protocol.LevelWarn, Code: codeUnsupported, Extension: c.ID, Path: c.Path,
				Message: part.key + " has no effect in this version"})
		}
	}
	return diags
}
