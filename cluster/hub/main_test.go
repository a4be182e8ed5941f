package hub

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/process/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Sharded(m).Run()) }
