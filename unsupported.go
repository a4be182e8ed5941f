package exthost

import (
	"fmt"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// codeUnsupported marks what a file may say and this version cannot do yet.
const codeUnsupported = "unsupported"

// refuseUnsupported is the error of a configuration that counts on what this
// version does not do: a policy that is written down and not enforced is worse
// than none.
func refuseUnsupported(cfg *config.Config) error {
	for _, section := range []struct {
		key    string
		stated bool
	}{
		{"hooks", len(cfg.Hooks) > 0},
	} {
		if section.stated {
			return protocol.Errorf(protocol.ConfigInvalid, "%s: this version cannot do that yet, and does not start as if it could; take it out", section.key)
		}
	}
	return nil
}

// unsupported is why c cannot run with this version, nil when it can.
func unsupported(c *discovery.Candidate) *protocol.Diagnostic {
	d := &protocol.Diagnostic{Level: protocol.LevelWarn, Code: codeUnsupported, Extension: c.ID, Path: c.Path}
	switch kind := c.Manifest.Transport.Kind; kind {
	case manifest.KindStdio, manifest.KindExec, manifest.KindHTTP, manifest.KindSSE:
	case "":
		d.Message = "its [[hooks]] are not run by this version"
		return d
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
		{"[[hooks]]", len(m.Hooks) > 0},
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
