package sdk_test

import (
	"os/exec"
	"testing"
)

// The tests of the SDKs for other languages pass, run in their directories with their languages' tools.
func TestOtherLanguages(t *testing.T) {
	for dir, argv := range map[string][]string{
		"python": {"python3", "-W", "error::ResourceWarning", "-m", "unittest"},
		"node":   {"node", "--test"},
	} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skipf("%s is missing: the SDK in sdk/%s is NOT TESTED", argv[0], dir)
			}
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
