package snapshot

import (
	"fmt"

	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/protocol"
)

// InjectFaults sets up the faults of the configuration. before is the previous plan, nil for the first.
func (p *Plan) InjectFaults(before *Plan) {
	var known *faults.Injector
	if before != nil {
		known = before.Faults
	}
	p.Faults = faults.New(p.Config.Inject, known)
	for n, r := range p.Config.Inject {
		p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Code:    "faults_injected",
			Message: fmt.Sprintf("calls of %s fail on purpose: %s", r.Tool, &r),
			Hint:    fmt.Sprintf("take inject[%d] out of the configuration", n),
		})
	}
}
