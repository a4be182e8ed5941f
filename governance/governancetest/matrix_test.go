package governancetest_test

import (
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/governancetest"
)

func TestMatrix(t *testing.T) {
	governancetest.Matrix(t, func(*testing.T, governance.Spec) governance.Policy { return governancetest.Scripted{} })
}
