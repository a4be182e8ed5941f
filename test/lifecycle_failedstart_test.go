package test

import (
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
)

// The output of an extension that fails to start passes no policy, so callers of its tools do not get it.
func TestWordsOfAFailedStart(t *testing.T) {
	policy := &sentinel{}
	f := hosttest.NewFolder(t)
	f.Add("x", "[capabilities]\ntools = [\"greet\"]\n[transport]\ncommand = \"./x.sh\"\nprotocol = \"native\"\n")
	f.Write("x/x.sh", `#!/bin/sh
read -r line
id=$(echo "$line" | sed 's/.*"id": *\([0-9]*\).*/\1/')
echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32000,"message":"the canary sings"}}'
read -r line
`)
	h := f.Open(exthost.Options{Policies: []governance.Member{member("sentinel", governance.Content, policy)}})
	_ = h.Ready(hosttest.Deadline(t))
	_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil)
	if err == nil || strings.Contains(err.Error(), "canary") && len(policy.seen) == 0 {
		t.Errorf("%v, policies saw %q", err, policy.seen)
	}
}
