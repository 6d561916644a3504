"""Software that reads node labels, on a control plane that schedules: scheduler, controllers, and pods that run."""
