//go:build !linux || (!amd64 && !arm64)

package sandbox

import (
	"errors"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

func (*Watch) start([]confine.Rule) error { return errors.New("there is no filter for this system") }
