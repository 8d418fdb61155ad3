"""Objects of a mirror: commits, trees and blobs, read through one git process, and the changed paths of two trees."""
