/* libdxcore.so: that it can be loaded is what tells WSL from other systems. */
int DXCoreCreateAdapterFactory(void)
{
    return -1;
}
