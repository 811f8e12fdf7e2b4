// Accesses of WIDTH elements, 1 or 4; STREAM says which lines stay in the caches: all, those not read and written
// once (1), those not written once (2).

#if WIDTH == 1
using Vector = float;
#else
using Vector = float4;
#endif

__device__ Vector load(const Vector* from)
{
#if STREAM == 1
    return __ldcs(from);
#else
    return *from;
#endif
}

__device__ void store(Vector* to, Vector value)
{
#if STREAM == 0
    *to = value;
#else
    __stcs(to, value);
#endif
}
