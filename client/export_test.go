package client

// BeginsWaiting is how many Begins wait for a call to share.
func (c *Client) BeginsWaiting() int { return c.begins.Waiting() }
