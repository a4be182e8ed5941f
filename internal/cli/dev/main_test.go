package dev

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/process"
)

func TestMain(m *testing.M) {
	process.Reenter()
	os.Exit(m.Run())
}
