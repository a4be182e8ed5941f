package stats

import (
	"fmt"
	"testing"

	"github.com/exthost/exthost/governance"
)

// The codes of a policy are counted apart, up to a bound.
func TestCodesArePerPolicyAndBounded(t *testing.T) {
	var p Policies
	deny := func(policy, code string) {
		p.Observe(governance.Observation{
			Policy:  policy,
			Flow:    governance.Request,
			Outcome: governance.Rejected,
			Code:    code,
		})
	}
	for i := range 1000 {
		deny("hostile", fmt.Sprint("made-up-", i))
	}
	deny("hostile", "made-up-0")
	deny("own", "no_rm")
	hostile, own := p.Calls("hostile")[0].Codes, p.Calls("own")[0].Codes
	if len(hostile) != maxCodes+1 || hostile["made-up-0"] != 2 || hostile["other"] != 1000-maxCodes {
		t.Errorf("%d codes, %d others, %v", len(hostile), hostile["other"], hostile)
	}
	if len(own) != 1 || own["no_rm"] != 1 {
		t.Errorf("%v", own)
	}
}
