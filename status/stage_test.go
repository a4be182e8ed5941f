package status

import (
	"encoding/json"
	"testing"
)

// The names of stages are part of the API, traces and commands.
func TestStageNamesAreStable(t *testing.T) {
	want := `["request_policies","hooks_before","sign_in","queue","start","instance","response_policies","hooks_after"]`
	all := []StageName{
		StageRequestPolicies,
		StageHooksBefore,
		StageSignIn,
		StageQueue,
		StageStart,
		StageInstance,
		StageResponsePolicies,
		StageHooksAfter,
	}
	raw, err := json.Marshal(all)
	if err != nil || string(raw) != want {
		t.Errorf("%s, %v; want %s", raw, err, want)
	}
	var back []StageName
	if err := json.Unmarshal(raw, &back); err != nil || len(back) != len(all) {
		t.Fatal(err)
	}
	for i, n := range all {
		if back[i] != n {
			t.Errorf("%s is read as %q", n, back[i])
		}
	}
	var s Stage
	if err := json.Unmarshal([]byte(`{"name":"of_a_later_version","took_ms":3}`), &s); err != nil || s.Name != 0 ||
		s.Name.String() != "" {
		t.Errorf("%q, %v", s.Name, err)
	}
	c := CallEvent{
		Stages: []Stage{s, {Name: StageQueue, Took: 2}, {Name: StageInstance, Took: 5}, {Name: StageQueue, Took: 4}},
	}
	if name, took := c.Slowest(); name != StageQueue || took != 6 {
		t.Errorf("%s %d", name, took)
	}
	if got := StageName(200).String(); got != "" {
		t.Error(got)
	}
}
