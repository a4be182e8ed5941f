package exthost

import (
	"github.com/exthost/exthost/runtime"
)

// Spec returns what an instance of an extension is run with: its command line's
// parts, environment, configuration and limits. It is for who starts one outside
// the host's care, such as a check or a debugger. An extension that may not run
// here is a requirement_missing error, one that is not there tool_not_found.
func (a Admin) Spec(id string) (runtime.Spec, error) {
	r := a.h.gen.Load()
	x := r.extensions[id]
	if x == nil {
		return runtime.Spec{}, a.h.cannotRestart(id)
	}
	spec, _, err := a.h.spec(r.cfg, x.candidate)
	return spec, err
}
