/** Imports a platform's module. The deploy engine adds what is called for that; a service does not load it. */
// biome-ignore lint/suspicious/noEmptyInterface: the deploy engine merges its signature
export interface PlatformLoader {}
