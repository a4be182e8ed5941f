package hub

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Sharded(m).Run()) }
