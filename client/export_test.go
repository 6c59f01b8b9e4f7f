package client

// BeginsWaiting is how many Begins wait for a call to share.
func (c *Client) BeginsWaiting() int { return c.begins.Waiting() }

// SettlementsWaiting is how many settlements wait for a call to share.
func (c *Client) SettlementsWaiting() int { return c.settlements.Waiting() }
