//go:build !linux || (!amd64 && !arm64)

package sandbox

import "errors"

func (*Watch) start([]rule) error { return errors.New("there is no filter for this system") }
