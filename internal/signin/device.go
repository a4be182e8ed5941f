package signin

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/oauth2"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Device has the user approve on another device (RFC 8628).
type Device struct {
	// Show tells the user the address to open, and the code to enter there.
	Show func(address, code string)
}

func (*Device) redirect() string { return "" }

func (d *Device) approve(ctx context.Context, f *found, config *oauth2.Config) (*oauth2.Token, error) {
	resource := oauth2.SetAuthURLParam("resource", f.resource)
	if config.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the authorization server has no login for other devices (device_authorization_endpoint); leave out --device, or use --paste")
	}
	r, err := config.DeviceAuth(ctx, resource)
	if err != nil {
		return nil, fmt.Errorf("the authorization server begins no login: %w", exchangeError(err, config.ClientSecret))
	}
	address := r.VerificationURIComplete
	if secure(address) != nil {
		address = r.VerificationURI
	}
	if err := secure(address); err != nil {
		return nil, fmt.Errorf("the address to open, %s, is refused: %w", short(address), err)
	}
	d.Show(address, short(r.UserCode))
	token, err := config.DeviceAccessToken(ctx, r, resource)
	if err != nil {
		return nil, fmt.Errorf("the login was not approved: %w", exchangeError(err, r.DeviceCode, config.ClientSecret))
	}
	return token, nil
}
