//go:build !slim

package hosts

import (
	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/protocol"
)

// PolicyKinds are the kinds of policies that the program links in addition to the library's.
var PolicyKinds = exthost.PolicyKinds{CEL: celpolicy.New, GRPC: grpcpolicy.NewInstance}

var checkCEL = celpolicy.Check

// lacking returns what a configuration asks for and this build does not have: nothing.
func lacking(*config.Config) []protocol.Diagnostic { return nil }
